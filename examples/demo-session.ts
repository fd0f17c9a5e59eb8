/** The demo's agent runtime: one session, its hooks and its tools. */
import type { HookAnswer } from '../sdk/session/api-types.ts';
import type { Session, SessionClient } from '../sdk/session/client.ts';
import { BulkheadError } from '../sdk/session/transport.ts';
import { eventually, expect, oneLine } from './demo-checks.ts';

const DAY_MS = 24 * 60 * 60_000;
const PROMPT = 'You are the assistant of a small bakery.';

export class DemoSession {
  readonly #session: Session;

  private constructor(session: Session) {
    this.#session = session;
  }

  static async open(client: SessionClient): Promise<DemoSession> {
    return new DemoSession(await client.start({ agentId: 'demo-agent', agentName: 'Baker' }));
  }

  /** Requests the system prompt until it contains the new house style. */
  async prompt(style: string): Promise<string> {
    const context = { systemPrompt: PROMPT, model: 'any' };
    const ask = async () => (await this.#session.hook('systemPrompt', context)).context.systemPrompt;
    const holds = (prompt: string) => prompt.startsWith(PROMPT) && prompt.includes(style);
    return oneLine(await eventually(ask, holds, `the prompt with "${style}"`));
  }

  async passes(text: string): Promise<string> {
    const answer = await this.#inbound(text);
    expect(answer.action === 'continue' && answer.context.message.text === text, 'the message as it was', answer);
    return `"${text}"`;
  }

  /** Sends a message until it is changed: the first start of the plugin may take longer than a hook may. */
  async redacts(text: string, wanted: string): Promise<string> {
    const holds = ({ context }: HookAnswer<'inboundMessage'>) => context.message.text === wanted;
    await eventually(() => this.#inbound(text), holds, `"${wanted}"`);
    return `"${text}" → "${wanted}"`;
  }

  /** Sends a message until it is cancelled: the forbidden words were set a moment ago. */
  async vetoes(text: string): Promise<string> {
    const answer = await eventually(
      () => this.#inbound(text),
      ({ action, reason }) => action === 'cancel' && reason !== null,
      'a veto with its reason',
    );
    return `"${text}" → ${answer.reason}`;
  }

  async finds(tool: string): Promise<string> {
    const tools = await this.#session.tools();
    const found = tools.find(({ name }) => name === tool);
    expect(found !== undefined, `the tool ${tool}`, tools);
    return `${found.name}: ${found.description}`;
  }

  async rolls(tool: string, count: number, sides: number): Promise<string> {
    const { content, isError } = await this.#session.callTool(tool, { count, sides });
    const [part] = content;
    const text = part?.type === 'text' ? part.text : '';
    const [, dice = '', sum = ''] = /^\d+d\d+: (.+) = (\d+)$/.exec(text) ?? [];
    const rolled = dice.split(' + ').map(Number);
    const fair = rolled.length === count && rolled.every((die) => die >= 1 && die <= sides);
    const added = rolled.reduce((total, die) => total + die, 0) === Number(sum);
    expect(!isError && fair && added, `${count} dice of ${sides} sides and their sum`, content);
    return text;
  }

  async refuses(tool: string, wrong: object): Promise<string> {
    const answer = await this.#session.callTool(tool, wrong).catch((error: unknown) => error);
    expect(answer instanceof BulkheadError && answer.status === 422, 'a refusal with status 422', String(answer));
    return oneLine(`${JSON.stringify(wrong)} → ${answer.status} ${answer.code}: ${answer.message}`);
  }

  /** Creates a to-do until it has the configured due date, which was set a moment ago. */
  async dates(title: string, days: number): Promise<string> {
    const context = { todo: { title, notes: '', dueAt: null, assigneeAgentId: null } };
    const ask = async () => (await this.#session.hook('todoCreate', context)).context.todo.dueAt ?? '';
    const holds = (dueAt: string) => Math.round((Date.parse(dueAt) - Date.now()) / DAY_MS) === days;
    return `"${title}" is due on ${(await eventually(ask, holds, `a date in ${days} days`)).slice(0, 10)}`;
  }

  async reads(skill: string): Promise<string> {
    const { text, resources } = await this.#session.readSkill(skill);
    const [picture] = resources;
    expect(text.startsWith('# ') && picture?.path === 'assets/logo.png', 'a text and its picture', { text, resources });
    return oneLine(`${text} ... ${picture.path}, ${picture.sizeBytes} bytes`);
  }

  close(): Promise<void> {
    return this.#session.delete();
  }

  #inbound(text: string): Promise<HookAnswer<'inboundMessage'>> {
    const message = { id: crypto.randomUUID(), from: 'ann', text, attachments: [] };
    return this.#session.hook('inboundMessage', { message });
  }
}
