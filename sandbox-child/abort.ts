/** AbortController for plugins. Node's own is an EventTarget, which would give plugins access to more of Node. */
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

const createNamedError = (name: string, message: string): Error => Object.assign(new Error(message), { name });

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
    // In a microtask, so that an error of one listener is reported as uncaught and does not stop the others.
    for (const listener of listeners) queueMicrotask(() => listener({ type: 'abort', target: signal }));
  }
}
const fire = Signal.fire;
// Only the holder of a controller may abort its signal.
Reflect.deleteProperty(Signal, 'fire');

export class AbortController {
  readonly signal: AbortSignalLike = new Signal();

  abort(reason: unknown = createNamedError('AbortError', 'This operation was aborted')): void {
    fire(this.signal as Signal, reason);
  }
}

/** Creates the abort reason of a cancelled handler's signal. */
export const createAbortReason = (reason: CancelReason): Error =>
  reason === 'deadline'
    ? createNamedError('TimeoutError', 'The deadline of this handler has passed')
    : createNamedError('AbortError', 'The caller of this handler cancelled the call');
