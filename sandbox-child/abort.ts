/** AbortController and AbortSignal for plugins. Node's own are EventTargets, which would give plugins access to more of Node. */
import type { CancelReason } from './json-rpc.ts';

type Listener = (event: { readonly type: 'abort'; readonly target: AbortSignalLike }) => void;

export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  onabort: Listener | null;
  throwIfAborted(): void;
  addEventListener(type: string, listener: Listener, options?: { once?: boolean }): void;
  removeEventListener(type: string, listener: Listener): void;
}

/** Longest time of `AbortSignal.timeout`, about 24 days: Node runs a longer timer immediately. */
const TIMEOUT_MAX_MS = 2 ** 31 - 1;
/** Largest number of pending `AbortSignal.timeout` of one plugin. */
const TIMEOUTS_MAX = 1_000;

const createNamedError = (name: string, message: string): Error => Object.assign(new Error(message), { name });
const createAbortError = (): Error => createNamedError('AbortError', 'This operation was aborted');

/** Lets this file create signals; plugins get them from controllers and the static methods. */
const INTERNAL = Symbol('signal');
/** Aborts a signal, which only this file may. */
let fire: (signal: AbortSignal, reason: unknown) => void;
let timeouts = 0;

export class AbortSignal implements AbortSignalLike {
  onabort: Listener | null = null;
  #aborted = false;
  #reason: unknown = undefined;
  readonly #listeners = new Set<Listener>();
  /** Signals of `AbortSignal.any` that abort with this one. */
  readonly #dependents = new Set<AbortSignal>();

  static {
    fire = (signal, reason) => signal.#fire(reason);
  }

  constructor(token?: symbol) {
    if (token !== INTERNAL) throw new TypeError('AbortSignal has no public constructor: use AbortController');
  }

  /** A signal that is aborted already. */
  static abort(reason: unknown = createAbortError()): AbortSignal {
    const signal = new AbortSignal(INTERNAL);
    signal.#fire(reason);
    return signal;
  }

  /** A signal that aborts after this time, in milliseconds. */
  static timeout(ms: unknown): AbortSignal {
    const delay = Number(ms);
    if (!(delay >= 0 && delay <= TIMEOUT_MAX_MS))
      throw new RangeError(`AbortSignal.timeout takes 0 to ${TIMEOUT_MAX_MS} milliseconds`);
    if (timeouts >= TIMEOUTS_MAX) throw new RangeError(`a plugin may have at most ${TIMEOUTS_MAX} pending timeouts`);
    timeouts += 1;
    const signal = new AbortSignal(INTERNAL);
    setTimeout(() => {
      timeouts -= 1;
      signal.#fire(createNamedError('TimeoutError', 'The operation was aborted due to timeout'));
    }, delay);
    return signal;
  }

  /** A signal that aborts as soon as one of these does. */
  static any(signals: Iterable<AbortSignal>): AbortSignal {
    const sources = [...signals];
    if (!sources.every((source) => source instanceof AbortSignal))
      throw new TypeError('AbortSignal.any takes a list of AbortSignals');
    const signal = new AbortSignal(INTERNAL);
    const aborted = sources.find((source) => source.#aborted);
    if (aborted) signal.#fire(aborted.#reason);
    else for (const source of sources) source.#dependents.add(signal);
    return signal;
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  addEventListener(type: string, listener: Listener): void {
    if (type === 'abort' && typeof listener === 'function') this.#listeners.add(listener);
  }

  removeEventListener(_type: string, listener: Listener): void {
    this.#listeners.delete(listener);
  }

  #fire(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    const listeners = [...this.#listeners, ...(this.onabort ? [this.onabort] : [])];
    this.#listeners.clear();
    // In a microtask, so that an error of one listener is reported as uncaught and does not stop the others.
    for (const listener of listeners) queueMicrotask(() => listener({ type: 'abort', target: this }));
    for (const dependent of this.#dependents) dependent.#fire(reason);
    this.#dependents.clear();
  }
}

export class AbortController {
  readonly signal: AbortSignal = new AbortSignal(INTERNAL);

  abort(reason: unknown = createAbortError()): void {
    fire(this.signal, reason);
  }
}

/** Creates the abort reason of a cancelled handler's signal. */
export const createAbortReason = (reason: CancelReason): Error =>
  reason === 'deadline'
    ? createNamedError('TimeoutError', 'The deadline of this handler has passed')
    : createNamedError('AbortError', 'The caller of this handler cancelled the call');
