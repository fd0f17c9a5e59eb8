/** One child as the fleet sees it: spawned, ready, loaded, draining, dead; its calls, their deadlines and its end. */
import type { z } from 'zod';
import { limits } from '../sdk/limits.ts';
import { control, type LogLevel, type Registrations, type Target } from '../sdk/protocol.ts';
import { makeSlots } from './call-slots.ts';
import { type ChildEnd, describeEnd } from './child-end.ts';
import { ChildError } from './child-errors.ts';
import { type Deadline, startDeadline } from './deadline.ts';
import type { Jail } from './jail.ts';
import { keepTail } from './stderr-tail.ts';
import { openWire, WireRefusal } from './wire.ts';

export type ChildState = 'spawning' | 'ready' | 'loaded' | 'draining' | 'dead';
export type Outcome = z.infer<(typeof control)['invoke']['result']>;

/** What the child asks of its host. The invocation is null for work that no running handler waits for. */
export interface HostCall {
  readonly member: string;
  readonly args: readonly unknown[];
  readonly invocationId: string | null;
}
export interface ChildLogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly data?: unknown;
  readonly invocationId: string | null;
  readonly truncated: boolean;
}
export interface ChildHandlers {
  /** Answers a host call. Reject with `WireRefusal` for what the plugin may read; anything else is told as `internal`. */
  onHostCall(call: HostCall): Promise<unknown>;
  onLog(line: ChildLogLine): void;
  /** Once, when every process of the jail is gone. */
  onExit(end: ChildEnd): void;
}
export interface Bundle {
  readonly bundle: string;
  /** How stack traces name the bundle. */
  readonly sourceName: string;
  /** Host calls that exist for it, such as `llm.complete`. */
  readonly members: readonly string[];
  readonly settings: Readonly<Record<string, string>>;
  readonly secretNames: readonly string[];
  /** What its version registered at publish; null at introspection. */
  readonly expected: Registrations | null;
}
export interface Loaded {
  readonly registrations: Registrations;
  /** Stack of the assignment of every name, known or not. */
  readonly places: Readonly<Record<string, string>>;
}
export interface InvokeOptions {
  readonly invocationId: string;
  /** Milliseconds since the epoch. */
  readonly deadlineAt: number;
  /** The caller's own way to give up. */
  readonly signal?: AbortSignal;
}

export interface Child {
  readonly state: ChildState;
  /** Process id on the host; 0 before `ready` and the same one after the end. */
  readonly pid: number;
  /** Rejects with `ChildError` where the child ends first. */
  readonly ready: Promise<void>;
  /** Resolves when the child is certainly gone. */
  readonly ended: Promise<ChildEnd>;
  /** Evaluates a bundle, once a child. Rejects with `ChildError`; over the budget the child is killed. */
  load(bundle: Bundle, budgetMs?: number): Promise<Loaded>;
  /** New settings or grants, for the calls after it. */
  configure(settings: Readonly<Record<string, string>>, members: readonly string[]): void;
  /** Runs a handler. Resolves with what the plugin's code did, rejects with `ChildError` for everything else. */
  invoke(target: Target, context: Readonly<Record<string, unknown>>, options: InvokeOptions): Promise<Outcome>;
  /** Stops and restarts the budget of a running handler; pauses nest. Unknown ids are ignored. */
  pauseDeadline(invocationId: string): void;
  resumeDeadline(invocationId: string): void;
  /** Lets running calls finish within the grace, takes no new ones, then ends the child. */
  stop(options: { graceMs: number }): Promise<ChildEnd>;
  /** Ends the child now. `why` becomes the end's reason, one sentence. */
  kill(why: string): Promise<ChildEnd>;
  /** Resident bytes. */
  rss(): number;
  /** The last 8 kB of what the process said on stderr. */
  stderr(): string;
}

/** From spawn to `ready`. It takes 60 ms; a machine that needs 10 s is in trouble anyway. */
const READY_WITHIN_MS = 10_000;
/** A child that hangs cannot answer a ping; one that is merely late can. Ended 100 ms after its deadline at the latest. */
const PING_WITHIN_MS = 50;

const hostCallParams = control.hostCall.params;
const logParams = control.log.params;
const noticeNames = { ready: control.ready.params, log: logParams };

interface Running {
  readonly deadline: Deadline;
}

/** Starts a child. It is of use after `ready` and `load`. */
export function startChild(jail: Jail, handlers: ChildHandlers): Child {
  const jailed = jail.spawn();
  const startedAt = performance.now();
  const stderr = keepTail(jailed.stderr);
  const slots = makeSlots(limits.callsInFlight, limits.callsWaiting);
  const running = new Map<string, Running>();
  const said = Promise.withResolvers<void>();
  let state: ChildState = 'spawning';
  let pid = 0;
  let why: string | null = null;
  let drained: (() => void) | null = null;

  const wire = openWire(jailed.stdout, jailed.stdin, { request: onRequest, notice: onNotice, violation: onViolation });
  const ended = jailed.exited.then((exit) => {
    const end = describeEnd(exit, { why, stderr: stderr(), ranMs: performance.now() - startedAt });
    state = 'dead';
    const error = new ChildError('dead', end.reason);
    wire.close(error);
    said.reject(error);
    handlers.onExit(end);
    return end;
  });
  const late = setTimeout(() => kill(`it was not ready within ${READY_WITHIN_MS} ms`), READY_WITHIN_MS);
  const ready = Promise.all([said.promise, jailed.confined]).then(
    () => {
      clearTimeout(late);
      pid = jailed.pid;
      if (state === 'spawning') state = 'ready';
    },
    async () => {
      clearTimeout(late);
      throw new ChildError('dead', (await ended).reason);
    },
  );
  // Who asks for `ready` is told; nobody has to ask.
  ready.catch(() => {});

  function kill(reason: string): Promise<ChildEnd> {
    why ??= reason;
    state = 'dead';
    jailed.kill();
    wire.close(new ChildError('dead', why));
    return ended;
  }
  function onViolation(reason: string): void {
    kill(`it broke the protocol: ${reason}`);
  }
  function onNotice(method: string, params: unknown): void {
    const known = Object.hasOwn(noticeNames, method);
    const parsed = known ? noticeNames[method as keyof typeof noticeNames].safeParse(params) : null;
    if (!parsed?.success) onViolation(`a malformed notice ${JSON.stringify(method).slice(0, 100)}`);
    else if (method === 'ready') said.resolve();
    else handlers.onLog(own(parsed.data as ChildLogLine));
  }
  async function onRequest(method: string, params: unknown): Promise<unknown> {
    const parsed = method === 'hostCall' ? hostCallParams.safeParse(params) : null;
    if (!parsed?.success) {
      onViolation(`a malformed request ${JSON.stringify(method).slice(0, 100)}`);
      throw new WireRefusal('malformed', 'malformed');
    }
    return handlers.onHostCall(own(parsed.data));
  }
  /** An id that names no running handler of this very child names nothing. */
  function own<T extends { readonly invocationId: string | null }>(message: T): T {
    if (message.invocationId === null || running.has(message.invocationId)) return message;
    return { ...message, invocationId: null };
  }
  /** Told from a slow child, which goes on, a hung one is ended: no code in it can be asked to stop. */
  function endIfHung(reason: string): void {
    const patience = setTimeout(() => kill(reason), PING_WITHIN_MS);
    wire.request('ping', {}).then(
      () => clearTimeout(patience),
      () => clearTimeout(patience),
    );
  }

  async function load(bundle: Bundle, budgetMs: number = limits.loadBudgetMs): Promise<Loaded> {
    await ready;
    if (state !== 'ready') throw new ChildError('dead', 'the child is not waiting for a bundle');
    const timeout = timeoutOf('loading', budgetMs);
    const timer = setTimeout(() => kill(timeout.message), budgetMs);
    try {
      const result = control.load.result.safeParse(await request('load', { ...bundle }));
      if (!result.success) throw new ChildError('broken', 'the answer to loading was none');
      if (result.data.outcome === 'failed') {
        throw new ChildError('load', result.data.message, { pluginStack: result.data.stack });
      }
      if (state === 'ready') state = 'loaded';
      return result.data;
    } catch (error) {
      throw why === timeout.message ? timeout : error;
    } finally {
      clearTimeout(timer);
    }
  }
  async function request(method: string, params: unknown): Promise<unknown> {
    try {
      return await wire.request(method, params);
    } catch (error) {
      if (error instanceof RangeError) throw new ChildError('too_large', error.message);
      if (error instanceof ChildError) throw error;
      throw new ChildError('dead', `it broke the protocol: ${(error as Error).message}`);
    }
  }

  function invoke(
    target: Target,
    context: Readonly<Record<string, unknown>>,
    options: InvokeOptions,
  ): Promise<Outcome> {
    const { invocationId, deadlineAt, signal } = options;
    if (state !== 'loaded') return Promise.reject(new ChildError('dead', why ?? `the child is ${state}`));
    const budgetMs = deadlineAt - Date.now();
    return new Promise((resolve, reject) => {
      let sent = false;
      const finish = (settle: () => void): void => {
        if (leave === null) return;
        const free = leave;
        leave = null;
        deadline.clear();
        running.delete(invocationId);
        signal?.removeEventListener('abort', giveUp);
        settle();
        if (free) free();
        if (slots.taken === 0) drained?.();
      };
      const deadline = startDeadline(budgetMs, () => {
        const timeout = timeoutOf(`${target.kind} ${target.name}`, budgetMs, deadline.elapsedMs());
        if (sent) {
          wire.notice('abort', { invocationId });
          endIfHung(timeout.message);
        }
        finish(() => reject(timeout));
      });
      const giveUp = (): void => {
        if (sent) wire.notice('abort', { invocationId });
        finish(() => reject(new ChildError('aborted', 'the caller gave up')));
      };
      let leave: (() => void) | false | null = false;
      leave = slots.take(() => {
        sent = true;
        running.set(invocationId, { deadline });
        request('invoke', { target, invocationId, context, deadlineMs: budgetMs }).then(
          (answer) => finish(() => settleWith(answer, resolve, reject)),
          (error) => finish(() => reject(error)),
        );
      });
      if (leave === false) finish(() => reject(new ChildError('busy', 'too many calls wait for this plugin')));
      if (signal?.aborted) giveUp();
      else signal?.addEventListener('abort', giveUp, { once: true });
    });
  }

  async function stop({ graceMs }: { graceMs: number }): Promise<ChildEnd> {
    if (state === 'loaded' && slots.taken > 0) {
      state = 'draining';
      const grace = Promise.withResolvers<void>();
      drained = grace.resolve;
      const timer = setTimeout(grace.resolve, graceMs);
      await grace.promise;
      clearTimeout(timer);
    }
    return kill('it was stopped');
  }

  return {
    get state() {
      return state;
    },
    get pid() {
      return pid;
    },
    ready,
    ended,
    load,
    configure: (settings, members) => wire.notice('configure', { settings, members }),
    invoke,
    pauseDeadline: (invocationId) => running.get(invocationId)?.deadline.pause(),
    resumeDeadline: (invocationId) => running.get(invocationId)?.deadline.resume(),
    stop,
    kill,
    rss: () => jailed.rss(),
    stderr,
  };
}

function timeoutOf(what: string, budgetMs: number, elapsedMs = budgetMs): ChildError {
  const elapsed = Math.round(elapsedMs);
  return new ChildError('timeout', `${what} took longer than its ${Math.round(budgetMs)} ms (${elapsed} ms)`, {
    budgetMs,
    elapsedMs: elapsed,
  });
}

/** The envelope by hand: a schema would cost a tenth of the whole round trip. The answer itself is the caller's to check. */
function settleWith(answer: unknown, resolve: (outcome: Outcome) => void, reject: (error: Error) => void): void {
  const fields = (typeof answer === 'object' && answer !== null ? answer : {}) as Record<string, unknown>;
  const { outcome, reason, message, stack } = fields;
  if (outcome === 'answered') resolve({ outcome, answer: fields['answer'] });
  else if (outcome === 'cancelled' && isText(reason) && reason !== '' && reason.length <= 500)
    resolve({ outcome, reason });
  else if (outcome === 'failed' && isText(message) && isText(stack)) resolve({ outcome, message, stack });
  else reject(new ChildError('broken', 'the plugin’s answer was none'));
}
const isText = (value: unknown): value is string => typeof value === 'string';
