/** The program of a child: waits for a bundle, loads it once, and runs its handlers. */
import type { z } from 'zod';
import type { control } from '../sdk/contract/protocol.ts';
import { endowments } from './endowments.ts';
import type { Message } from './frame.ts';
import { makeHost, type SendCall } from './host.ts';
import { HostCalls } from './host-calls.ts';
import { type Invocations, type Outcome, trackInvocations } from './invocations.ts';
import { makeLog } from './log-lines.ts';
import type { Realm } from './realm.ts';
import { openRegistry } from './registry.ts';
import { explain } from './text.ts';
import { openWire, type Wire } from './wire.ts';

type Params<Name extends keyof typeof control> = z.infer<(typeof control)[Name]['params']>;
type LoadResult = z.infer<(typeof control)['load']['result']>;
type Method = 'load' | 'invoke' | 'abort' | 'ping' | 'configure';

/** Says `ready` and serves until the supervisor closes the wire. */
export function serve(realm: Realm): void {
  const program = new Program(realm);
  program.start();
}

class Program {
  readonly #realm: Realm;
  readonly #wire: Wire;
  readonly #invocations: Invocations = trackInvocations();
  readonly #registry = openRegistry();
  readonly #calls: HostCalls;
  readonly #call: SendCall;
  readonly #log: ReturnType<typeof makeLog>;

  constructor(realm: Realm) {
    this.#realm = realm;
    this.#wire = openWire((message) => this.#receive(message));
    this.#calls = new HostCalls(this.#wire);
    this.#log = makeLog(this.#wire, () => this.#invocations.current());
    // The invocation is the one that asks, not the one that happens to free a place in the queue.
    this.#call = (member, args) => this.#calls.send(member, args, this.#invocations.current());
  }

  start(): void {
    const report = (error: unknown): void => this.#report(error);
    process.on('uncaughtException', report);
    process.on('unhandledRejection', report);
    this.#wire.send({ method: 'ready', params: { node: process.version } });
  }

  #report(error: unknown): void {
    const { message, stack } = explain(error);
    this.#log('error', `uncaught: ${stack || message}`);
  }

  #receive({ id = 0, method, params, result, error }: Message): void {
    if (method === undefined) this.#calls.settle(id, result, error);
    // What else arrives is of our own making: the supervisor's.
    else this.#serve(method as Method, id, params);
  }

  #serve(method: Method, id: number, params: unknown): void {
    if (method === 'invoke') this.#invoke(id, params as Params<'invoke'>);
    else if (method === 'load') {
      this.#load(params as Params<'load'>).then((result) => this.#answer(id, result));
    } else if (method === 'ping') this.#wire.send({ id, result: null });
    else if (method === 'abort') this.#invocations.abort((params as Params<'abort'>).invocationId);
    else if (method === 'configure') {
      this.#realm.replace({ host: makeHost(params as Params<'configure'>, this.#call, this.#log) });
    }
  }

  async #load(params: Params<'load'>): Promise<LoadResult> {
    const host = makeHost(params, this.#call, this.#log);
    const own = this.#realm.harden(endowments(this.#log, (error) => this.#report(error)));
    try {
      this.#realm.evaluate(params.bundle, params.sourceName, { ...this.#registry.globals, ...own, host });
      // "Before the first turn ends": promises that were settled already may still register.
      await new Promise<void>((resolve) => setImmediate(resolve));
      return { outcome: 'loaded', ...this.#registry.seal(params.expected) };
    } catch (error) {
      return { outcome: 'failed', ...explain(error) };
    }
  }

  #answer(id: number, result: LoadResult): void {
    try {
      this.#wire.send({ id, result });
    } catch (error) {
      // Registrations too large for the wire.
      this.#wire.send({ id, result: { outcome: 'failed', ...explain(error) } });
    }
  }

  #invoke(id: number, params: Params<'invoke'>): void {
    const handler = this.#registry.find(params.target);
    const done = (outcome: Outcome): void => this.#wire.send({ id, result: outcome });
    if (params.target.kind === 'channel') addBodyText(params.context);
    if (handler) this.#invocations.run(params, handler, done);
    else {
      const { kind, name } = params.target;
      done({ outcome: 'failed', message: `${kind} ${name} is not registered`, stack: '' });
    }
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
