/** The program of a child: waits for a bundle, loads it once, and runs its handlers. */
import { setFlagsFromString } from 'node:v8';
import type { z } from 'zod';
import type { control } from '../sdk/contract/protocol.ts';
import { endowments } from './endowments.ts';
import { makeHost, type SendCall } from './host.ts';
import { HostCalls } from './host-calls.ts';
import { type Invocations, type Outcome, trackInvocations } from './invocations.ts';
import { makeLog } from './log-lines.ts';
import type { Realm } from './realm.ts';
import { openRegistry } from './registry.ts';
import { type Cancellation, connectToSupervisor, type SupervisorConnection } from './supervisor-connection.ts';
import { explain } from './text.ts';

type Params<Name extends keyof typeof control> = z.infer<(typeof control)[Name]['params']>;
type LoadResult = z.infer<(typeof control)['load']['result']>;

/**
 * V8 optimizes a function after 1,000 calls instead of 3,000, which makes a hook a tenth faster. The flag is set once the
 * bundle is loaded: optimizing what runs only at the start would make the start 20 ms longer.
 */
const OPTIMIZE_SOONER = '--invocation-count-for-turbofan=1000';

/** Says `ready` and serves until the supervisor closes the wire. */
export function serve(realm: Realm): void {
  const program = new Program(realm);
  program.start();
}

class Program {
  readonly #realm: Realm;
  readonly #supervisor: SupervisorConnection;
  readonly #invocations: Invocations = trackInvocations();
  readonly #registry = openRegistry();
  readonly #call: SendCall;
  readonly #log: ReturnType<typeof makeLog>;

  constructor(realm: Realm) {
    this.#realm = realm;
    this.#supervisor = connectToSupervisor({
      onRequest: (method, params, cancellation) =>
        method === 'load'
          ? this.#load(params as Params<'load'>)
          : this.#invoke(params as Params<'invoke'>, cancellation),
      // There is one notification: `configure`.
      onNotification: (_method, params) => this.#configure(params as Params<'configure'>),
    });
    this.#log = makeLog(this.#supervisor, () => this.#invocations.current());
    const calls = new HostCalls(this.#supervisor);
    // The invocation is the one that asks, not the one that happens to free a place in the queue.
    this.#call = (member, args) => calls.send({ member, args, invocationId: this.#invocations.current() });
  }

  start(): void {
    const report = (error: unknown): void => this.#report(error);
    process.on('uncaughtException', report);
    process.on('unhandledRejection', report);
    this.#supervisor.notify('ready', { node: process.version });
  }

  #report(error: unknown): void {
    const { message, stack } = explain(error);
    this.#log('error', `uncaught: ${stack || message}`);
  }

  #configure(params: Params<'configure'>): void {
    this.#realm.replace({ host: makeHost(params, this.#call, this.#log) });
  }

  async #load(params: Params<'load'>): Promise<LoadResult> {
    const host = makeHost(params, this.#call, this.#log);
    const own = this.#realm.harden(endowments(this.#log, (error) => this.#report(error)));
    try {
      this.#realm.evaluate(params.bundle, params.sourceName, { ...this.#registry.globals, ...own, host });
      // "Before the first turn ends": promises that were settled already may still register.
      await new Promise<void>((resolve) => setImmediate(resolve));
      setFlagsFromString(OPTIMIZE_SOONER);
      return { outcome: 'loaded', ...this.#registry.seal(params.expected) };
    } catch (error) {
      return { outcome: 'failed', ...explain(error) };
    }
  }

  #invoke(params: Params<'invoke'>, cancellation: Cancellation): Outcome | Promise<Outcome> {
    const handler = this.#registry.find(params.target);
    if (params.target.kind === 'channel') addBodyText(params.context);
    if (handler) return this.#invocations.run(params, handler, cancellation);
    const { kind, name } = params.target;
    return { outcome: 'failed', message: `${kind} ${name} is not registered`, stack: '' };
  }
}

/** A webhook's body travels once, as its exact bytes; its text is made of them here. */
function addBodyText({ request }: Readonly<Record<string, unknown>>): void {
  if (typeof request !== 'object' || request === null) return;
  const fields = request as { bodyBytes?: unknown; bodyText?: unknown };
  const { bodyBytes: bytes } = fields;
  if (!(bytes instanceof Uint8Array)) return;
  fields.bodyText = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}
