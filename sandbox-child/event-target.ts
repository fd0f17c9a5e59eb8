/** Event, CustomEvent and EventTarget for plugins. Node's own would give plugins access to more of Node. */

interface PluginEventInit {
  readonly bubbles?: boolean;
  readonly cancelable?: boolean;
  readonly composed?: boolean;
}
type Callback = ((event: Event) => unknown) | { handleEvent(event: Event): unknown };
interface ListenerOptions {
  readonly capture?: boolean;
  readonly once?: boolean;
  readonly passive?: boolean;
  readonly signal?: EventTarget & { readonly aborted: boolean };
}
interface Listener {
  readonly callback: Callback;
  readonly capture: boolean;
  readonly once: boolean;
  readonly passive: boolean;
  isRemoved: boolean;
}

const AT_TARGET = 2;

/** The state of an event. Only this file reads it. */
interface EventState {
  readonly type: string;
  readonly init: Required<PluginEventInit>;
  readonly timeStamp: number;
  target: EventTarget | null;
  isDispatching: boolean;
  isStopped: boolean;
  isStoppedAtOnce: boolean;
  isPassive: boolean;
  isPrevented: boolean;
}
let stateOf: (event: Event) => EventState;

export class Event {
  static readonly NONE = 0;
  static readonly CAPTURING_PHASE = 1;
  static readonly AT_TARGET = AT_TARGET;
  static readonly BUBBLING_PHASE = 3;
  readonly #state: EventState;

  static {
    stateOf = (event) => event.#state;
  }

  constructor(type: string, init?: PluginEventInit | null) {
    if (type === undefined) throw new TypeError('an Event needs a type');
    const { bubbles = false, cancelable = false, composed = false } = init ?? {};
    this.#state = {
      type: String(type),
      init: { bubbles: Boolean(bubbles), cancelable: Boolean(cancelable), composed: Boolean(composed) },
      timeStamp: Date.now(),
      target: null,
      isDispatching: false,
      isStopped: false,
      isStoppedAtOnce: false,
      isPassive: false,
      isPrevented: false,
    };
  }

  get type(): string {
    return this.#state.type;
  }
  get target(): EventTarget | null {
    return this.#state.target;
  }
  get srcElement(): EventTarget | null {
    return this.#state.target;
  }
  get currentTarget(): EventTarget | null {
    return this.#state.isDispatching ? this.#state.target : null;
  }
  get eventPhase(): number {
    return this.#state.isDispatching ? AT_TARGET : 0;
  }
  get bubbles(): boolean {
    return this.#state.init.bubbles;
  }
  get cancelable(): boolean {
    return this.#state.init.cancelable;
  }
  get composed(): boolean {
    return this.#state.init.composed;
  }
  get timeStamp(): number {
    return this.#state.timeStamp;
  }
  get isTrusted(): boolean {
    return false;
  }
  get defaultPrevented(): boolean {
    return this.#state.isPrevented;
  }
  get returnValue(): boolean {
    return !this.#state.isPrevented;
  }
  set returnValue(value: boolean) {
    if (!value) this.preventDefault();
  }
  get cancelBubble(): boolean {
    return this.#state.isStopped;
  }
  set cancelBubble(value: boolean) {
    if (value) this.stopPropagation();
  }

  composedPath(): EventTarget[] {
    const { currentTarget } = this;
    return currentTarget === null ? [] : [currentTarget];
  }
  preventDefault(): void {
    if (this.#state.init.cancelable && !this.#state.isPassive) this.#state.isPrevented = true;
  }
  stopPropagation(): void {
    this.#state.isStopped = true;
  }
  stopImmediatePropagation(): void {
    this.#state.isStopped = true;
    this.#state.isStoppedAtOnce = true;
  }
}

export class CustomEvent extends Event {
  readonly #detail: unknown;

  constructor(type: string, init?: (PluginEventInit & { readonly detail?: unknown }) | null) {
    super(type, init);
    this.#detail = init?.detail ?? null;
  }

  get detail(): unknown {
    return this.#detail;
  }
}

/** Runs the listeners of an event. Only this file's callers may: a plugin could replace `dispatchEvent`. */
export let dispatchTo: (target: EventTarget, event: Event) => void;

type ListenerWatcher = (hasListeners: boolean) => void;
/** Calls back when listeners of a target were added or removed. A plugin could bypass methods of a subclass. */
export let watchListeners: (target: EventTarget, watcher: ListenerWatcher) => void;

export class EventTarget {
  /** By type, in the order in which they were added. Null until the first one: every handler gets a signal, and few use it. */
  #listeners: Map<string, Listener[]> | null = null;
  #watcher: ListenerWatcher | null = null;

  static {
    dispatchTo = (target, event) => target.#dispatch(event);
    watchListeners = (target, watcher) => {
      target.#watcher = watcher;
    };
  }

  addEventListener(type: string, callback: Callback | null, options?: ListenerOptions | boolean | null): void {
    const { capture = false, once = false, passive = false, signal } = readOptions(options);
    if (!isCallback(callback) || signal?.aborted) return;
    const name = String(type);
    this.#listeners ??= new Map();
    const listeners = this.#listeners.get(name) ?? [];
    if (findListener(listeners, callback, capture)) return;
    listeners.push({ callback, capture, once, passive, isRemoved: false });
    this.#listeners.set(name, listeners);
    this.#watcher?.(true);
    signal?.addEventListener('abort', () => this.#remove(name, callback, capture), { once: true });
  }

  removeEventListener(type: string, callback: Callback | null, options?: ListenerOptions | boolean | null): void {
    if (isCallback(callback)) this.#remove(String(type), callback, readOptions(options).capture ?? false);
  }

  dispatchEvent(event: Event): boolean {
    if (!(event instanceof Event)) throw new TypeError('dispatchEvent takes an Event');
    if (stateOf(event).isDispatching) throw new TypeError('the event is being dispatched already');
    this.#dispatch(event);
    return !event.defaultPrevented;
  }

  #remove(type: string, callback: Callback, capture: boolean): void {
    const listeners = this.#listeners?.get(type) ?? [];
    const found = findListener(listeners, callback, capture);
    if (!found) return;
    found.isRemoved = true;
    const rest = listeners.filter((listener) => listener !== found);
    if (rest.length > 0) this.#listeners?.set(type, rest);
    else this.#listeners?.delete(type);
    this.#watcher?.((this.#listeners?.size ?? 0) > 0);
  }

  #dispatch(event: Event): void {
    const state = stateOf(event);
    Object.assign(state, { target: this, isDispatching: true });
    // A copy: listeners that are added meanwhile wait for the next event. Those that capture come first.
    const listeners = [...(this.#listeners?.get(state.type) ?? [])].sort(
      (left, right) => Number(right.capture) - Number(left.capture),
    );
    for (const listener of listeners) {
      if (state.isStoppedAtOnce) break;
      if (listener.isRemoved) continue;
      if (listener.once) this.#remove(state.type, listener.callback, listener.capture);
      state.isPassive = listener.passive;
      runListener(listener.callback, this, event);
    }
    Object.assign(state, { isDispatching: false, isStopped: false, isStoppedAtOnce: false, isPassive: false });
  }
}

/** The error of one listener is reported as uncaught and does not stop the others. */
function runListener(callback: Callback, target: EventTarget, event: Event): void {
  try {
    if (typeof callback === 'function') Reflect.apply(callback, target, [event]);
    else callback.handleEvent(event);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

const isCallback = (value: unknown): value is Callback =>
  typeof value === 'function' || (typeof value === 'object' && value !== null);

const readOptions = (options: ListenerOptions | boolean | null | undefined): ListenerOptions =>
  typeof options === 'object' && options !== null ? options : { capture: Boolean(options) };

const findListener = (listeners: readonly Listener[], callback: Callback, capture: boolean): Listener | undefined =>
  listeners.find((listener) => listener.callback === callback && listener.capture === Boolean(capture));

/** The accessor of a handler property such as `onabort`: one listener, in the place where it was first set. */
export class HandlerSlot {
  readonly #target: EventTarget;
  readonly #type: string;
  #handler: ((event: Event) => unknown) | null = null;
  #isListening = false;

  constructor(target: EventTarget, type: string) {
    this.#target = target;
    this.#type = type;
  }

  get(): ((event: Event) => unknown) | null {
    return this.#handler;
  }

  set(handler: unknown): void {
    this.#handler = typeof handler === 'function' ? (handler as (event: Event) => unknown) : null;
    if (this.#handler === null || this.#isListening) return;
    this.#isListening = true;
    const run = (event: Event): void => {
      if (this.#handler) Reflect.apply(this.#handler, this.#target, [event]);
    };
    Reflect.apply(EventTarget.prototype.addEventListener, this.#target, [this.#type, run]);
  }
}
