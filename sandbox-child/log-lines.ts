/** Sends log lines, truncated to the protocol's limits. The supervisor enforces the limits again. */
import type { LogLevel } from '../sdk/contract/protocol.ts';
import type { SupervisorConnection } from './supervisor-connection.ts';
import { text, toErrorData, UNPRINTABLE } from './text.ts';

/** Writes one line. Never throws. */
export type Log = (level: LogLevel, message: string, data?: unknown) => void;

/** The protocol's limits of one line, in characters. The supervisor counts bytes. */
const MESSAGE_MAX_CHARS = 8_192;
const DATA_MAX_CHARS = 16_384;
/** Maximum nesting of log data that is copied because JSON cannot represent it. */
const DEPTH_MAX = 64;
/** Maximum number of values that are copied. Each takes at least two characters of JSON, so more would exceed `DATA_MAX_CHARS`. */
const VALUES_MAX = DATA_MAX_CHARS / 2;
/** Data with more errors is copied with a search for cycles, because errors may be causes of each other. */
const ERRORS_MAX = 100;

/** `getInvocationId` returns the invocation whose code is running. */
export function makeLog(supervisor: SupervisorConnection, getInvocationId: () => string | null): Log {
  return (level, message, data) => {
    const shown = data === undefined ? { truncated: false } : toLoggable(data);
    const truncated = message.length > MESSAGE_MAX_CHARS || shown.truncated;
    const line = {
      ...shown,
      level,
      message: message.slice(0, MESSAGE_MAX_CHARS),
      invocationId: getInvocationId(),
      truncated,
    };
    // Sending fails only for data that nests too deeply.
    supervisor.notify('log', line).catch(() => supervisor.notify('log', { ...line, data: text(data) }));
  };
}

interface Loggable {
  readonly data: unknown;
  readonly truncated: boolean;
}

/** Converts log data to JSON: a Map becomes the list of its entries, a Set that of its values. Data that is too long becomes truncated text. */
function toLoggable(data: unknown): Loggable {
  try {
    return toJsonData(data);
  } catch {
    return toJsonData(replaceUnprintable(data, [], { valuesLeft: VALUES_MAX }));
  }
}

/** @throws where the data, which may be code of the plugin, throws */
function toJsonData(data: unknown): Loggable {
  if (typeof data === 'string') return { data: data.slice(0, DATA_MAX_CHARS), truncated: data.length > DATA_MAX_CHARS };
  let errors = 0;
  const json = JSON.stringify(data, (_key, value) => {
    // JSON writes `{}` for them.
    if (value instanceof Map || value instanceof Set) throw new TypeError('not JSON');
    if (!(value instanceof Error)) return value;
    errors += 1;
    if (errors > ERRORS_MAX) throw new RangeError('too many errors');
    return toErrorData(value);
  });
  if (json !== undefined && json.length <= DATA_MAX_CHARS) return { data: JSON.parse(json), truncated: false };
  // A function or a symbol has no JSON.
  const shown = json ?? text(data);
  // `text` cuts at the same length.
  return { data: shown.slice(0, DATA_MAX_CHARS), truncated: shown.length >= DATA_MAX_CHARS };
}

/** Values that may still be copied. Bounds the work for objects that refer to each other, because each path to a value is copied. */
interface CopyBudget {
  valuesLeft: number;
}

/** Copies the data and replaces each value that JSON cannot represent, so that one BigInt, Map, cycle or throwing getter does not lose the rest. */
function replaceUnprintable(value: unknown, ancestors: readonly object[], budget: CopyBudget): unknown {
  try {
    if (budget.valuesLeft <= 0) return '[left out]';
    budget.valuesLeft -= 1;
    if (typeof value === 'bigint') return String(value);
    // The whole would be longer than a string can be.
    if (typeof value === 'string') return value.slice(0, DATA_MAX_CHARS);
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return value;
    if (ancestors.includes(value)) return '[a cycle]';
    if (ancestors.length >= DEPTH_MAX) return '[nested too deeply]';
    const path = [...ancestors, value];
    if (value instanceof Error) return replaceUnprintable(toErrorData(value), path, budget);
    if ('toJSON' in value && typeof value.toJSON === 'function') return JSON.parse(JSON.stringify(value));
    // JSON leaves functions out.
    if (typeof value === 'function') return undefined;
    const items = value instanceof Map || value instanceof Set ? takeItems(value, budget.valuesLeft) : value;
    if (Array.isArray(items)) return items.map((item) => replaceUnprintable(item, path, budget));
    return Object.fromEntries(Object.keys(value).map((name) => [name, replaceField(value, name, path, budget)]));
  } catch {
    return UNPRINTABLE;
  }
}

/** The entries of a Map or the values of a Set: as many as may be copied, and one that stands for the rest. */
function takeItems(collection: Iterable<unknown>, max: number): unknown[] {
  const items: unknown[] = [];
  for (const item of collection) {
    items.push(item);
    if (items.length > max) break;
  }
  return items;
}

/** Reading a property may run a getter of the plugin. */
function replaceField(owner: object, name: string, path: readonly object[], budget: CopyBudget): unknown {
  try {
    return replaceUnprintable((owner as Record<string, unknown>)[name], path, budget);
  } catch {
    return UNPRINTABLE;
  }
}
