/**
 * The globals of a plugin beside the language's own and the registration objects. Each is made here, small, and hands
 * out strings, plain data and frozen functions; nothing of Node's leads on to something else of Node's.
 */
import { AbortController } from './abort.ts';
import { cryptoEndowment } from './crypto.ts';
import type { Log } from './log-lines.ts';
import { text } from './text.ts';
import { timerEndowments } from './timers.ts';
import { webhooksEndowment } from './webhooks.ts';

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
    return this.#decoder.decode(input, { stream: options.stream === true });
  }
}

/** Node's URL is the whole standard and reaches nothing, once its three extras are off. */
function plainUrl(): { URL: typeof URL; URLSearchParams: typeof URLSearchParams } {
  const inspect = Symbol.for('nodejs.util.inspect.custom');
  Reflect.deleteProperty(URL, 'createObjectURL');
  Reflect.deleteProperty(URL, 'revokeObjectURL');
  for (const { prototype } of [URL, URLSearchParams]) Reflect.deleteProperty(prototype, inspect);
  return { URL, URLSearchParams };
}

function consoleEndowment(log: Log): Record<string, (...values: unknown[]) => void> {
  const at =
    (level: Parameters<Log>[0]) =>
    (...values: unknown[]): void =>
      log(level, values.map(text).join(' '));
  const info = at('info');
  return { log: info, info, debug: at('debug'), trace: at('debug'), warn: at('warn'), error: at('error'), dir: info };
}

/** Globals that every plugin has. `log` writes its log lines, `report` is told what its callbacks throw. */
export function endowments(log: Log, report: (error: unknown) => void): Readonly<Record<string, unknown>> {
  return {
    // Compartments have no clock and no chance of their own; plugins are no covert-channel risk to each other by them.
    Date,
    Math,
    console: consoleEndowment(log),
    ...timerEndowments(report),
    ...plainUrl(),
    TextEncoder: PluginTextEncoder,
    TextDecoder: PluginTextDecoder,
    AbortController,
    crypto: cryptoEndowment(),
    webhooks: webhooksEndowment(),
    atob: (data: string) => atob(data),
    btoa: (data: string) => btoa(data),
    // Without its options: what could be transferred is not here.
    structuredClone: (value: unknown) => structuredClone(value),
    queueMicrotask: (callback: () => void) => {
      if (typeof callback !== 'function') throw new TypeError('queueMicrotask takes a function');
      queueMicrotask(callback);
    },
  };
}
