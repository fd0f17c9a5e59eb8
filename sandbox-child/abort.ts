/** AbortController and AbortSignal for plugins. Node's own are EventTargets, which would give plugins access to more of Node. */
import { DOMException } from './dom-exception.ts';
import { dispatchTo, Event, EventTarget, HandlerSlot, watchListeners } from './event-target.ts';
import type { CancelReason } from './json-rpc.ts';

/** Longest time of `AbortSignal.timeout`, about 24 days: Node runs a longer timer immediately. */
const TIMEOUT_MAX_MS = 2 ** 31 - 1;
/** Largest number of pending `AbortSignal.timeout` of one plugin. */
const TIMEOUTS_MAX = 1_000;

/** From this number of dependent signals on, a signal forgets those that were collected as garbage. */
const SWEEP_MIN = 64;

const createAbortError = (): Error => new DOMException('This operation was aborted', 'AbortError');

/** Lets this file create signals; plugins get them from controllers and the static methods. */
const INTERNAL = Symbol('signal');
/** Aborts a signal, which only this file may. */
let fire: (signal: AbortSignal, reason: unknown) => void;
let timeouts = 0;

/** Signals of `AbortSignal.any` that abort with another one. */
interface Dependents {
  /** Weak, because the other one may live as long as the plugin. */
  readonly all: Set<WeakRef<AbortSignal>>;
  /** Those that have listeners: nothing else may hold them. */
  readonly listening: Set<AbortSignal>;
  sweepAt: number;
}

export class AbortSignal extends EventTarget {
  readonly #onabort = new HandlerSlot(this, 'abort');
  #aborted = false;
  #reason: unknown = undefined;
  /** Null until the first one. */
  #dependents: Dependents | null = null;
  /** Signals that abort this one; empty unless `AbortSignal.any` made it. None of them has sources itself. */
  #sources: readonly AbortSignal[] = [];

  static {
    fire = (signal, reason) => signal.#fire(reason);
  }

  constructor(token?: symbol) {
    if (token !== INTERNAL) throw new TypeError('AbortSignal has no public constructor: use AbortController');
    super();
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
      signal.#fire(new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
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
    else signal.#follow(sources.flatMap((source) => (source.#sources.length > 0 ? source.#sources : [source])));
    return signal;
  }

  #follow(sources: readonly AbortSignal[]): void {
    this.#sources = sources;
    const reference = new WeakRef(this);
    for (const source of sources) source.#addDependent(reference);
    watchListeners(this, (hasListeners) => this.#setListening(hasListeners && !this.#aborted));
  }

  #setListening(isListening: boolean): void {
    for (const source of this.#sources) {
      if (isListening) source.#dependents?.listening.add(this);
      else source.#dependents?.listening.delete(this);
    }
  }

  #addDependent(reference: WeakRef<AbortSignal>): void {
    this.#dependents ??= { all: new Set(), listening: new Set(), sweepAt: SWEEP_MIN };
    const { all, sweepAt } = this.#dependents;
    all.add(reference);
    if (all.size < sweepAt) return;
    for (const known of all) if (known.deref() === undefined) all.delete(known);
    this.#dependents.sweepAt = Math.max(SWEEP_MIN, 2 * all.size);
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

  get onabort(): ((event: Event) => unknown) | null {
    return this.#onabort.get();
  }
  set onabort(handler: unknown) {
    this.#onabort.set(handler);
  }

  #fire(reason: unknown): void {
    if (this.#aborted) return;
    const fired: AbortSignal[] = [this];
    for (const reference of this.#dependents?.all ?? []) {
      const dependent = reference.deref();
      if (dependent && !dependent.#aborted) fired.push(dependent);
    }
    this.#dependents?.all.clear();
    // All before the first listener runs, which may look at the other signals.
    for (const signal of fired) signal.#setAborted(reason);
    for (const signal of fired) dispatchTo(signal, new Event('abort'));
  }

  #setAborted(reason: unknown): void {
    this.#aborted = true;
    this.#reason = reason;
    this.#setListening(false);
  }
}

export class AbortController {
  readonly #signal: AbortSignal = new AbortSignal(INTERNAL);

  get signal(): AbortSignal {
    return this.#signal;
  }

  abort(reason: unknown = createAbortError()): void {
    fire(this.#signal, reason);
  }
}

/** Creates the abort reason of a cancelled handler's signal. */
export function createAbortReason(reason: CancelReason): Error {
  if (reason === 'deadline') return new DOMException('The deadline of this handler has passed', 'TimeoutError');
  return new DOMException(
    `The caller of this handler cancelled the call${reason.slice('caller'.length)}`,
    'AbortError',
  );
}
