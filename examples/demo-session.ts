/** The demo's agent runtime: one session, its hooks and its tools. */
import { eventually, expect, oneLine } from './demo-checks.ts';
import { Refusal, type Service } from './demo-service.ts';

interface HookAnswer {
  readonly action: 'continue' | 'cancel';
  readonly context: {
    readonly systemPrompt?: string;
    readonly message?: { readonly text: string };
    readonly todo?: { readonly dueAt: string | null };
  };
  readonly reason: string | null;
}
interface ToolAnswer {
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly isError: boolean;
}
interface Tool {
  readonly name: string;
  readonly description: string;
}

interface Skill {
  readonly text: string;
  readonly resources: readonly { readonly path: string; readonly sizeBytes: number }[];
}

const DAY_MS = 24 * 60 * 60_000;
const PROMPT = 'You are the assistant of a small bakery.';

export class DemoSession {
  readonly #sessions: Service;
  readonly id: string;

  private constructor(sessions: Service, id: string) {
    this.#sessions = sessions;
    this.id = id;
  }

  static async open(sessions: Service): Promise<DemoSession> {
    const { id } = await sessions.post<{ id: string }>('/sessions', { agentId: 'demo-agent', agentName: 'Baker' });
    return new DemoSession(sessions, id);
  }

  /** Requests the system prompt until it contains the new house style. */
  async prompt(style: string): Promise<string> {
    const context = { systemPrompt: PROMPT, model: 'any' };
    const ask = async () => (await this.#hook('systemPrompt', context)).context.systemPrompt ?? '';
    const holds = (prompt: string) => prompt.startsWith(PROMPT) && prompt.includes(style);
    return oneLine(await eventually(ask, holds, `the prompt with "${style}"`));
  }

  async passes(text: string): Promise<string> {
    const answer = await this.#inbound(text);
    expect(answer.action === 'continue' && answer.context.message?.text === text, 'the message as it was', answer);
    return `"${text}"`;
  }

  async redacts(text: string, wanted: string): Promise<string> {
    const answer = await this.#inbound(text);
    expect(answer.context.message?.text === wanted, `"${wanted}"`, answer);
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
    const { items } = await this.#sessions.get<{ items: readonly Tool[] }>(`${this.#path}/tools`);
    const found = items.find(({ name }) => name === tool);
    expect(found !== undefined, `the tool ${tool}`, items);
    return `${found.name}: ${found.description}`;
  }

  async rolls(tool: string, count: number, sides: number): Promise<string> {
    const { content, isError } = await this.#call(tool, { count, sides });
    const text = content[0]?.text ?? '';
    const [, dice = '', sum = ''] = /^\d+d\d+: (.+) = (\d+)$/.exec(text) ?? [];
    const rolled = dice.split(' + ').map(Number);
    const fair = rolled.length === count && rolled.every((die) => die >= 1 && die <= sides);
    const added = rolled.reduce((total, die) => total + die, 0) === Number(sum);
    expect(!isError && fair && added, `${count} dice of ${sides} sides and their sum`, content);
    return text;
  }

  async refuses(tool: string, wrong: object): Promise<string> {
    const answer = await this.#call(tool, wrong).catch((error: unknown) => error);
    expect(answer instanceof Refusal && answer.status === 422, 'a refusal with status 422', String(answer));
    return oneLine(`${JSON.stringify(wrong)} → ${answer.message.slice(answer.message.indexOf('422'))}`);
  }

  /** Creates a to-do until it has the configured due date, which was set a moment ago. */
  async dates(title: string, days: number): Promise<string> {
    const context = { todo: { title, notes: '', dueAt: null, assigneeAgentId: null } };
    const ask = async () => (await this.#hook('todoCreate', context)).context.todo?.dueAt ?? '';
    const holds = (dueAt: string) => Math.round((Date.parse(dueAt) - Date.now()) / DAY_MS) === days;
    return `"${title}" is due on ${(await eventually(ask, holds, `a date in ${days} days`)).slice(0, 10)}`;
  }

  async reads(skill: string): Promise<string> {
    const { text, resources } = await this.#sessions.get<Skill>(`${this.#path}/skills/${skill}`);
    const [picture] = resources;
    expect(text.startsWith('# ') && picture?.path === 'assets/logo.png', 'a text and its picture', { text, resources });
    return oneLine(`${text} ... ${picture.path}, ${picture.sizeBytes} bytes`);
  }

  close(): Promise<unknown> {
    return this.#sessions.delete(this.#path);
  }

  get #path(): string {
    return `/sessions/${encodeURIComponent(this.id)}`;
  }

  #inbound(text: string): Promise<HookAnswer> {
    return this.#hook('inboundMessage', { message: { id: crypto.randomUUID(), from: 'ann', text, attachments: [] } });
  }

  #hook(hook: string, context: object): Promise<HookAnswer> {
    return this.#sessions.post<HookAnswer>(`${this.#path}/hooks/${hook}`, { context });
  }

  #call(tool: string, given: object): Promise<ToolAnswer> {
    const call = { callId: crypto.randomUUID(), arguments: given };
    return this.#sessions.post<ToolAnswer>(`${this.#path}/tools/${tool}`, call);
  }
}
