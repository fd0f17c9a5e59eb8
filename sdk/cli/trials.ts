/** Trying things out in a session of one's own: tools, commands, hooks and events of one installation. */
import { type EventName, events, type HookName, hooks } from '../contract/protocol.ts';
import type { Session } from '../session/client.ts';
import { readEvents, type ServerSentEvent } from '../session/event-stream.ts';
import { Transport } from '../session/transport.ts';
import type { Context } from './context.ts';
import { CommandError } from './failure.ts';

/** The agent that sessions of the command line belong to. */
const AGENT = { agentId: 'bulkhead-cli', agentName: 'bulkhead command line' };

export interface Fired {
  readonly id: string;
  readonly event: string;
  readonly outcome: 'delivered' | 'failed';
  readonly error: string | null;
  readonly ms: number;
}

/** What an author does in the session API that no agent runtime does. */
export class Trials {
  readonly #context: Context;
  readonly #transport: Transport;
  #session: Session | null = null;

  private constructor(context: Context, transport: Transport) {
    this.#context = context;
    this.#transport = transport;
  }

  static async open(context: Context): Promise<Trials> {
    const { token } = await context.rest();
    return new Trials(context, new Transport({ url: await context.sessionUrl(), token }));
  }

  /** Answers when the draft that was saved last serves. @throws BulkheadError `not_running` with the reason */
  async wake(installationId: string): Promise<void> {
    await this.#post(`/installations/${installationId}/wake`, undefined, true);
  }

  /** @throws CommandError where there is no such event */
  fire(installationId: string, event: string, data: object): Promise<Fired> {
    const name = event.replace(/^events\./, '');
    if (!Object.hasOwn(events, name)) throw unknown('event', event, Object.keys(events));
    return this.#post(`/installations/${installationId}/fire`, { event: name as EventName, data });
  }

  /** What happens to the draft's inspector, from its opening on; it is open as long as this is read. */
  async *inspect(installationId: string): AsyncGenerator<ServerSentEvent> {
    const path = `/installations/${installationId}/inspector`;
    const response = await this.#transport.open({ method: 'POST', path, signal: this.#context.signal });
    for await (const event of readEvents(response.body)) if (event.data !== '') yield event;
  }

  /** @param name with or without the slug before it */
  async call(slug: string, name: string, args: object): Promise<unknown> {
    return (await this.session()).callTool(fullName(slug, name), args, { signal: this.#context.signal });
  }

  async command(slug: string, name: string, input: string): Promise<unknown> {
    return (await this.session()).runCommand(fullName(slug, name), input, { signal: this.#context.signal });
  }

  /** Passes a context through all installed plugins. What is not said is as in the hook's example. */
  async hook(name: string, context: object): Promise<unknown> {
    const full = Object.keys(hooks).find((known) => known === name || known === `middleware.${name}`);
    if (full === undefined) throw unknown('hook', name, Object.keys(hooks));
    const { example } = hooks[full as keyof typeof hooks];
    const short = full.replace(/^middleware\./, '') as HookName;
    return (await this.session()).hook(short as never, { ...example.context, ...context } as never, {
      signal: this.#context.signal,
    });
  }

  /** The session everything happens in, started when first needed. */
  async session(): Promise<Session> {
    this.#session ??= await (await this.#context.sessions()).start(AGENT, { signal: this.#context.signal });
    return this.#session;
  }

  /** Leaves nothing behind. */
  async close(): Promise<void> {
    await this.#session?.delete().catch(() => undefined);
    this.#session = null;
  }

  #post<Answer>(path: string, body?: unknown, repeatable = false): Promise<Answer> {
    return this.#transport.json({ method: 'POST', path, body, repeatable, signal: this.#context.signal });
  }
}

export const fullName = (slug: string, name: string): string => (name.includes('__') ? name : `${slug}__${name}`);

function unknown(kind: string, name: string, known: readonly string[]): CommandError {
  const message = `There is no ${kind} “${name}”: there are ${known.join(', ')}.`;
  return new CommandError('usage', message, { exit: 'usage' });
}
