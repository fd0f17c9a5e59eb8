/** AbortController for plugins: Node's own is an EventTarget with much of Node behind it. */
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

const named = (name: string, message: string): Error => Object.assign(new Error(message), { name });

class Signal implements AbortSignalLike {
  aborted = false;
  reason: unknown = undefined;
  onabort: Listener | null = null;
  readonly #listeners = new Set<Listener>();

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  addEventListener(type: string, listener: Listener): void {
    if (type === 'abort' && typeof listener === 'function') this.#listeners.add(listener);
  }

  removeEventListener(_type: string, listener: Listener): void {
    this.#listeners.delete(listener);
  }

  static fire(signal: Signal, reason: unknown): void {
    if (signal.aborted) return;
    signal.aborted = true;
    signal.reason = reason;
    const listeners = [...signal.#listeners, ...(signal.onabort ? [signal.onabort] : [])];
    signal.#listeners.clear();
    // A listener that throws is reported like an error in a timer, and the others still run.
    for (const listener of listeners) queueMicrotask(() => listener({ type: 'abort', target: signal }));
  }
}
const fire = Signal.fire;
// Only the holder of a controller may abort its signal.
Reflect.deleteProperty(Signal, 'fire');

export class AbortController {
  readonly signal: AbortSignalLike = new Signal();

  abort(reason: unknown = named('AbortError', 'This operation was aborted')): void {
    fire(this.signal as Signal, reason);
  }
}

/** The reason of the signal of a handler whose call is cancelled. */
export const abortReason = (reason: CancelReason): Error =>
  reason === 'deadline'
    ? named('TimeoutError', 'The deadline of this handler has passed')
    : named('AbortError', 'The caller of this handler gave up');
