/**
 * Creates the globals of the web that a plugin has from the start. They give out strings, plain data
 * and frozen functions only, so that none of Node's objects can be reached through them.
 */
import type { PlatformGlobal } from '../sdk/contract/realm-globals.ts';
import { AbortController, AbortSignal } from './abort.ts';
import { nameClasses } from './class-names.ts';
import { createPerformance } from './clock.ts';
import { createConsole } from './console.ts';
import { createCrypto } from './crypto.ts';
import { DOMException, replaceNodeExceptions } from './dom-exception.ts';
import { CustomEvent, Event, EventTarget } from './event-target.ts';
import { hardenOverridable } from './harden.ts';
import type { SendCall } from './host.ts';
import type { Log } from './log-lines.ts';
import { INSPECT } from './text.ts';
import { createTimers } from './timers.ts';
import type { WebProgram } from './web-program.ts';
import { createWebhooks } from './webhooks.ts';

type WebClass = keyof WebProgram['classes'];

class PluginTextEncoder {
  readonly encoding = 'utf-8';
  encode(input = ''): Uint8Array {
    return new Uint8Array(encoder.encode(input));
  }
  encodeInto(input: string, target: Uint8Array): { read: number; written: number } {
    return { ...encoder.encodeInto(input, target) };
  }
}
const encoder = new TextEncoder();

class PluginTextDecoder {
  readonly #decoder: TextDecoder;
  constructor(label = 'utf-8', options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
    this.#decoder = new TextDecoder(label, { fatal: options.fatal === true, ignoreBOM: options.ignoreBOM === true });
  }
  get encoding(): string {
    return this.#decoder.encoding;
  }
  decode(input?: Uint8Array | ArrayBuffer, options: { stream?: boolean } = {}): string {
    const stream = options.stream === true;
    try {
      return this.#decoder.decode(input, { stream });
    } catch (error) {
      // Some encodings fail with another class of Node. `hardenErrorClasses` would need 5 ms for it, to load such an encoding.
      hardenOverridable(Object.getPrototypeOf(Object(error)));
      throw error;
    }
  }
}

/** Removes everything except the parsing of URLs. */
function restrictUrl(): { URL: typeof URL; URLSearchParams: typeof URLSearchParams } {
  Reflect.deleteProperty(URL, 'createObjectURL');
  Reflect.deleteProperty(URL, 'revokeObjectURL');
  // Only a call leads to it.
  const iterator: object = Object.getPrototypeOf(new URLSearchParams().entries());
  for (const prototype of [URL.prototype, URLSearchParams.prototype, iterator])
    Reflect.deleteProperty(prototype, INSPECT);
  hardenOverridable(iterator);
  return { URL, URLSearchParams };
}

/** One call for each class of Node's errors that the globals throw, which its code names. */
const FAILING_CALLS: Readonly<Record<string, () => unknown>> = {
  ERR_ARG_NOT_ITERABLE: () => Reflect.construct(URLSearchParams, [{ [Symbol.iterator]: 1 }]),
  ERR_ENCODING_NOT_SUPPORTED: () => new TextDecoder('none'),
  ERR_INVALID_ARG_TYPE: () => Reflect.apply(URLSearchParams.prototype.forEach, new URLSearchParams(), []),
  ERR_INVALID_THIS: () => Reflect.apply(URLSearchParams.prototype.keys, {}, []),
  ERR_INVALID_TUPLE: () => Reflect.construct(URLSearchParams, [[1]]),
  ERR_INVALID_URL: () => Reflect.set(new URL('http://a'), 'href', 'none'),
  ERR_MISSING_ARGS: () => Reflect.construct(URL, []),
};

/** Hardens the prototypes of these classes: all of Node shares them, and only an error leads to them. Takes about 1 ms. */
export function hardenErrorClasses(): void {
  for (const fail of Object.values(FAILING_CALLS)) {
    try {
      fail();
    } catch (error) {
      hardenOverridable(Object.getPrototypeOf(error));
    }
  }
}

/** Creates the globals. `log` writes its log lines; `report` receives the errors of its callbacks; `send` sends host calls. */
export function createEndowments(
  log: Log,
  report: (error: unknown) => void,
  send: SendCall,
): Readonly<Record<Exclude<PlatformGlobal, WebClass>, unknown>> {
  // The class was made before ses replaced `Error`, whose original shows the frames of this program.
  Object.setPrototypeOf(DOMException, Object.getPrototypeOf(TypeError));
  nameClasses({ AbortController, AbortSignal, CustomEvent, DOMException, Event, EventTarget });
  return {
    console: createConsole(log),
    ...createTimers(report),
    ...restrictUrl(),
    TextEncoder: PluginTextEncoder,
    TextDecoder: PluginTextDecoder,
    AbortController,
    AbortSignal,
    CustomEvent,
    DOMException,
    Event,
    EventTarget,
    performance: createPerformance(),
    crypto: createCrypto(),
    webhooks: createWebhooks(send, log),
    atob: (data: string) => replaceNodeExceptions(() => atob(data)),
    btoa: (data: string) => replaceNodeExceptions(() => btoa(data)),
    // Without options: plugins have no transferable objects.
    structuredClone: (value: unknown) => replaceNodeExceptions(() => structuredClone(value)),
    queueMicrotask: (callback: () => void) => {
      if (typeof callback !== 'function') throw new TypeError('the callback of queueMicrotask must be a function');
      queueMicrotask(callback);
    },
  };
}
