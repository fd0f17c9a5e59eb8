/** The child program: waits for a bundle, loads it once, and runs its handlers. */
import type { z } from 'zod';
import type { control } from '../sdk/contract/protocol.ts';
import { checkAnswers } from './answer-checks.ts';
import { ArgumentChecks, findSchemaFaults } from './argument-checks.ts';
import { setCompilerFlags } from './compiler-flags.ts';
import { countPendingSubtle } from './crypto.ts';
import { Deltas } from './deltas.ts';
import { createEndowments, hardenErrorClasses } from './endowments.ts';
import { makeHost, type SendCall } from './host.ts';
import { HostCalls } from './host-calls.ts';
import { IdleCollection } from './idle-collection.ts';
import { type Invocations, type Outcome, trackInvocations } from './invocations.ts';
import { makeLog } from './log-lines.ts';
import { LostChanges } from './lost-changes.ts';
import { refuseLostResult } from './message.ts';
import type { Realm } from './realm.ts';
import { openRegistry } from './registry.ts';
import type { Handler } from './signatures.ts';
import { type Cancellation, connectToSupervisor, type SupervisorConnection } from './supervisor-connection.ts';
import { describeError, describeLoadError } from './text.ts';
import { createWebGlobals, type WebGlobals } from './web-globals.ts';

type Params<Name extends keyof typeof control> = z.infer<(typeof control)[Name]['params']>;
type LoadResult = z.infer<(typeof control)['load']['result']>;

/** The host call behind `fetch`, which exists where this one is granted. */
const FETCH_MEMBER = 'http.fetch';

/**
 * How long introspection waits for what the top-level code has started, such as a timer, because that may register a handler too late:
 * 200 ms. Code that has started nothing is not waited for. Counted in rounds: on a busy machine, timers run late.
 */
const SETTLE_ROUNDS = 40;
const SETTLE_ROUND_MS = 5;

/** Sends `ready` and serves until the supervisor closes the connection. */
export function serve(realm: Realm): void {
  const program = new Program(realm);
  program.start();
}

class Program {
  readonly #realm: Realm;
  readonly #supervisor: SupervisorConnection;
  readonly #invocations: Invocations = trackInvocations(
    (invocationId) => void this.#supervisor.notify('started', { invocationId }),
  );
  readonly #deltas: Deltas;
  readonly #registry = openRegistry();
  readonly #idleCollection = new IdleCollection();
  readonly #call: SendCall;
  readonly #callAhead: SendCall;
  #web: WebGlobals | null = null;
  #hasFetch = false;
  /** Whether introspection runs the top-level code, or waits for what that has started. */
  #isIntrospecting = false;
  /** The first error that the top-level code did not throw during introspection: it rejected a promise, or called the host. */
  #loadFault: { readonly error: unknown } | null = null;
  #argumentChecks = new ArgumentChecks({});
  readonly #log: ReturnType<typeof makeLog>;
  readonly #lostChanges: LostChanges;

  constructor(realm: Realm) {
    this.#realm = realm;
    this.#supervisor = connectToSupervisor({
      onRequest: (method, params, cancellation) => {
        if (method === 'load') return this.#load(params as Params<'load'>);
        if (method === 'health') return answerHealth();
        return this.#invoke(params as Params<'invoke'>, cancellation);
      },
      onNotification: (method, params) => {
        if (method === 'deltaRead') this.#deltas.recordRead((params as Params<'deltaRead'>).invocationId);
        else this.#configure(params as Params<'configure'>);
      },
    });
    this.#deltas = new Deltas(this.#supervisor);
    this.#log = makeLog(this.#supervisor, () => this.#invocations.getCurrentId());
    this.#lostChanges = new LostChanges((invocationId, message) =>
      makeLog(this.#supervisor, () => invocationId)('warn', message),
    );
    const calls = new HostCalls(this.#supervisor);
    // Read here, not when the queued call is sent: another invocation may be running then.
    const describe = (member: string, args: unknown[]) => ({
      member,
      args,
      invocationId: this.#invocations.getCurrentId(),
    });
    this.#call = checkAnswers((member, args) => calls.send(describe(member, args)));
    // The bodies of 16 answers that do not arrive must not hold other calls back.
    this.#callAhead = (member, args) => calls.sendAhead(describe(member, args));
  }

  start(): void {
    const report = (error: unknown): void => this.#logUncaught(error);
    process.on('uncaughtException', report);
    process.on('unhandledRejection', report);
    // Before `ready`: a child starts before a plugin needs it, so no plugin waits for this.
    hardenErrorClasses();
    this.#supervisor.notify('ready', { node: process.version });
  }

  #logUncaught(error: unknown): void {
    if (this.#isIntrospecting) this.#loadFault ??= { error };
    const { message, stack } = describeError(error);
    this.#log('error', `uncaught: ${stack || message}`);
  }

  #configure(params: Params<'configure'>): void {
    try {
      this.#realm.replace({ host: makeHost(params, this.#call, this.#log) });
      this.#setFetch(params.members.includes(FETCH_MEMBER));
    } catch {
      this.#log('error', 'host keeps its old settings and grants, because the plugin froze globalThis');
    }
  }

  /** Only on a change: the plugin may have replaced its `fetch`. */
  #setFetch(isGranted: boolean): void {
    if (isGranted === this.#hasFetch || this.#web === null) return;
    this.#hasFetch = isGranted;
    if (isGranted) this.#realm.define(this.#web.fetch);
    else this.#realm.remove(Object.keys(this.#web.fetch));
  }

  /** The supervisor refuses the call, too, but the code may catch that. */
  #recordEarlyCall(name: string): void {
    if (this.#isIntrospecting)
      this.#loadFault ??= { error: new Error(`${name} is called while the code loads: call it in a handler`) };
  }

  async #load(params: Params<'load'>): Promise<LoadResult> {
    // Not at the start: the code cache of this program is made under the flags of the command line.
    setCompilerFlags();
    this.#isIntrospecting = params.expected === null;
    const call: SendCall = (member, args) => {
      this.#recordEarlyCall(`host.${member}`);
      return this.#call(member, args);
    };
    const host = makeHost(params, call, this.#log);
    const endowments = this.#realm.harden(createEndowments(this.#log, (error) => this.#logUncaught(error), this.#call));
    const begin = (): void => this.#recordEarlyCall('fetch');
    this.#web = createWebGlobals(this.#realm, endowments, { begin, open: this.#call, read: this.#callAhead });
    this.#hasFetch = params.members.includes(FETCH_MEMBER);
    const lazyGlobals = { ...this.#web.classes, ...(this.#hasFetch ? this.#web.fetch : {}) };
    try {
      const { globals: groups } = this.#registry;
      // Versions that were published before these refusals existed must still start.
      if (params.expected === null) {
        this.#registry.refuseRepeats();
        this.#realm.defineGroups(groups);
      } else this.#realm.replace(groups);
      const idle = this.#isIntrospecting ? countActive() : 0;
      this.#realm.evaluate(params.bundle, params.sourceName, { ...endowments, host }, lazyGlobals);
      // Registration is open until the first turn ends, so microtasks may still register.
      await (this.#isIntrospecting ? endMicrotasks() : endTurn());
      const sealed = this.#registry.seal(params.expected);
      if (this.#isIntrospecting) await this.#refuseLoadFaults(idle);
      const { tools } = params.expected ?? sealed.registrations;
      this.#argumentChecks = new ArgumentChecks(tools);
      this.#idleCollection.start();
      const schemaFaults = params.expected === null ? findSchemaFaults(tools) : [];
      return { outcome: 'loaded', ...sealed, schemaFaults };
    } catch (error) {
      return { outcome: 'failed', ...describeLoadError(error) };
    }
  }

  /**
   * Refuses what would only be a line in the log of each installation: top-level code that fails after its first await, calls the
   * host, or registers too late.
   *
   * @param idle what was active before the code ran
   */
  async #refuseLoadFaults(idle: number): Promise<void> {
    // Node reports rejected promises after the microtasks.
    await endTurn();
    for (let round = 0; round < SETTLE_ROUNDS && !this.#loadFault && countActive() > idle; round += 1)
      await new Promise<void>((resolve) => setTimeout(resolve, SETTLE_ROUND_MS));
    this.#isIntrospecting = false;
    if (this.#loadFault) throw this.#loadFault.error;
    const late = this.#registry.findLate();
    if (late) throw late;
  }

  #invoke(params: Params<'invoke'>, cancellation: Cancellation): Outcome | Promise<Outcome> {
    this.#idleCollection.recordCall();
    const { kind, name } = params.target;
    const handler = this.#registry.find(params.target);
    if (kind === 'channel') addBodyText(params.context);
    if (kind === 'tools') {
      const refusal = this.#checkArguments(name, params.context.arguments);
      if (refusal) return refusal;
    }
    if (!handler) return { outcome: 'failed', message: `${kind} ${name} is not registered`, stack: '' };
    const run = (adapted: Handler) => this.#invocations.run(params, adapted, cancellation);
    if (kind === 'providers') return run(this.#deltas.adapt(handler, params));
    if (kind === 'hook') return this.#lostChanges.watch({ name, invocationId: params.invocationId }, handler, run);
    return run(adaptResult(kind, name, handler));
  }

  #checkArguments(tool: string, args: unknown): Outcome | null {
    try {
      const errors = this.#argumentChecks.check(tool, args);
      return errors.length === 0 ? null : { outcome: 'invalid_arguments', errors };
    } catch (error) {
      return { outcome: 'failed', message: (error as Error).message, stack: '' };
    }
  }
}

/** Whether the supervisor ignores the result: one that cannot be sent must not make it repeat what is done. */
const isResultUnread = (kind: string, name: string): boolean =>
  kind === 'event' || (kind === 'channel' && name === 'send');

function adaptResult(kind: string, name: string, handler: Handler): Handler {
  if (isResultUnread(kind, name)) return dropResult(handler);
  return kind === 'tools' || kind === 'commands' ? requireResult(handler) : handler;
}

const dropResult = (handler: Handler) => async (context: unknown) => void (await handler(context));

/** An agent reads this result: `{}` in place of an error or a response would look like a success. */
const requireResult = (handler: Handler) => async (context: unknown) => {
  const result = await handler(context);
  refuseLostResult(result);
  return result;
};

/** Timers, immediates, calls of `crypto.subtle` and other work that keeps the event loop alive, and the pipes. */
const countActive = (): number => process.getActiveResourcesInfo().length + countPendingSubtle();

const endTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Ends before any I/O, which may or may not be done within the first turn: introspection must not find a registration that a later
 * start may miss.
 */
async function endMicrotasks(): Promise<void> {
  // Node runs a tick that a microtask adds after all microtasks.
  await null;
  await new Promise<void>((resolve) => process.nextTick(resolve));
}

/** Two immediates: between them the loop runs the timers and I/O that are due. */
async function answerHealth(): Promise<z.infer<(typeof control)['health']['result']>> {
  for (let turn = 0; turn < 2; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
  return { healthy: true };
}

/** Decodes a webhook's body to text here, so that the body is sent only once, as bytes. */
function addBodyText({ request }: Readonly<Record<string, unknown>>): void {
  if (typeof request !== 'object' || request === null) return;
  const fields = request as { bodyBytes?: unknown; bodyText?: unknown };
  const { bodyBytes: bytes } = fields;
  if (!(bytes instanceof Uint8Array)) return;
  fields.bodyText = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}
