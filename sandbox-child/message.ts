/**
 * Encodes and decodes JSON-RPC messages as frames, for supervisor and child:
 *
 *     u32 length of the rest │ u32 length of the head │ head, JSON │ parts, raw
 *
 * Long strings and byte arrays are moved out of the JSON into raw parts. As plain JSON, with byte arrays as base64, a hook
 * with a 4 KB prompt takes an eighth more CPU time.
 */
import { isBoxedPrimitive, isUint8Array } from 'node:util/types';
import {
  checkCost,
  decodeUtf8,
  FRAME_BOUNDS,
  FRAME_VALUES_MAX,
  type JsonBounds,
  JsonError,
  type ReadJson,
  readJson,
} from '../sdk/contract/untrusted-json.ts';
import { FRAME_MAX_BYTES, FrameError, HEADER_BYTES } from './frame.ts';

/** Size of the head's length field, bytes. */
const LENGTH_BYTES = 4;
/** Size of the memory that writers reuse for encoding, bytes. */
export const SCRATCH_BYTES = 65_536;
/** Shorter strings are cheaper inside the JSON. Characters. */
const PART_MIN_CHARS = 512;
/** Deeper values stay in the JSON: the protocol's own byte arrays and long texts are not nested deeper. */
const PART_DEPTH_MAX = 7;
/** Longer arrays, such as a transcript's messages, stay in the JSON, because `JSON.stringify` walks them faster. */
const PART_ARRAY_MAX = 32;
/** Maximum number of parts of a message. Further texts stay in the JSON; further byte arrays are refused. */
const PARTS_MAX = 256;
/**
 * After this many objects and arrays the rest stays in the JSON, where `JSON.stringify` throws at a cycle. Objects that link to
 * each other have more paths than this program could follow. The supervisor refuses a plugin's message of so many values anyway.
 */
const VISITS_MAX = FRAME_VALUES_MAX;
/** Up to this length, memory for three bytes per character is allocated. The bytes of a longer head are counted first. */
const HEAD_COUNTED_CHARS = 4_096;

type Key = string | number;
/**
 * Reads the number of bytes that `set` copies, by the getter of the prototype. A plugin's array or subclass may define another
 * `byteLength`, which would shift the rest of the frame.
 */
const countBytes: (bytes: Uint8Array) => number = Function.prototype.call.bind(
  Reflect.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), 'byteLength')?.get as () => number,
);

const TEXT = 0;
const BYTES = 1;
/**
 * A part's entries in `Parts.table`: the number of its keys, the keys from the last to the first, `TEXT` or `BYTES`, and its
 * length in bytes. This is the number of entries that are not keys.
 */
const PART_EXTRAS = 3;

/**
 * Encodes a message as a frame at the start of the returned buffer, which may be longer. `frameBytes` returns the frame's length.
 * Returning a view of the frame instead would take 1 % of a hook's time.
 *
 * @param maxBytes longest content of the frame
 * @param scratch memory to use if the frame fits; the next call overwrites it
 * @throws RangeError over `maxBytes`, FrameError for too many byte arrays, TypeError for cycles, BigInts and values of which JSON
 *   keeps nothing, and what a getter or `toJSON` of a plugin's value throws
 */
export function encodeMessage(message: object, maxBytes: number = FRAME_MAX_BYTES, scratch?: Buffer): Buffer {
  const parts = new Parts();
  const head = stringify(detachParts(message, parts));
  // For a short head an upper bound is enough and saves counting its bytes.
  const headMaxBytes = head.length <= HEAD_COUNTED_CHARS ? 3 * head.length : Buffer.byteLength(head);
  let contentMaxBytes = LENGTH_BYTES + headMaxBytes + parts.bytes;
  if (contentMaxBytes > maxBytes) {
    contentMaxBytes = LENGTH_BYTES + Buffer.byteLength(head) + parts.bytes;
    if (contentMaxBytes > maxBytes)
      throw new RangeError(`a message of ${contentMaxBytes} bytes; the limit is ${maxBytes}`);
  }
  const frameMaxBytes = HEADER_BYTES + contentMaxBytes;
  const frame = scratch && frameMaxBytes <= scratch.byteLength ? scratch : Buffer.allocUnsafeSlow(frameMaxBytes);
  const headBytes = frame.write(head, HEADER_BYTES + LENGTH_BYTES);
  let end = HEADER_BYTES + LENGTH_BYTES + headBytes;
  for (const content of parts.contents) {
    if (typeof content === 'string') end += frame.write(content, end);
    else {
      frame.set(content, end);
      end += countBytes(content);
    }
  }
  // A getter or `toJSON` of the message may have resized the memory of a byte array since its length was noted.
  if (end !== HEADER_BYTES + LENGTH_BYTES + headBytes + parts.bytes)
    throw new TypeError('a byte array changed its length while the message was encoded');
  frame.writeUInt32LE(end - HEADER_BYTES, 0);
  frame.writeUInt32LE(headBytes, HEADER_BYTES);
  return frame;
}

/**
 * Copies the params of a message as they would arrive if they were sent now. Long texts are shared rather than copied.
 *
 * @throws what `encodeMessage` throws, except over the longest frame
 */
export function copyAsSent<T extends object>(params: T): T {
  const parts = new Parts();
  const copy = JSON.parse(stringify(detachRoot(params, parts)));
  let entry = 0;
  for (const content of parts.contents) {
    const depth = parts.table[entry] as number;
    placePart(copy, parts.table, entry + 1, depth, typeof content === 'string' ? content : new Uint8Array(content));
    entry += depth + PART_EXTRAS;
  }
  return copy;
}

/** `JSON.stringify`, whose error does not say where a BigInt is. */
function stringify(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw findBigInt(value as object) ?? error;
  }
}

/** Path from the message's root to a value. */
interface Path {
  readonly key: Key;
  readonly parent: Path | null;
  readonly depth: number;
}
const ROOT: Path = { key: '', parent: null, depth: 0 };

/** The long texts and byte arrays that were moved out of a message. */
class Parts {
  /** A flat list, which JSON encodes and decodes in half the time of nested ones. */
  readonly table: Key[] = [];
  readonly contents: (string | Uint8Array)[] = [];
  bytes = 0;
  /** Objects and arrays that were searched for parts. */
  visits = 0;
  /** Whether a value of which JSON keeps nothing is refused. */
  refusesLost = false;

  /** Adds the value at a path. Returns the null that replaces it. */
  add(content: string | Uint8Array, path: Path): null {
    const isText = typeof content === 'string';
    const bytes = isText ? Buffer.byteLength(content) : countBytes(content);
    this.table.push(path.depth);
    for (let step = path; step.parent !== null; step = step.parent) this.table.push(step.key);
    this.table.push(isText ? TEXT : BYTES, bytes);
    this.contents.push(content);
    this.bytes += bytes;
    return null;
  }
}

/** Replaces the long parts of a message's params or result by null and adds the list of parts. */
function detachParts(message: object, parts: Parts): object {
  const { params, result } = message as { readonly params?: unknown; readonly result?: unknown };
  if (result === undefined) {
    const slim = detachRoot(params, parts);
    return slim === params ? message : { ...message, params: slim, parts: parts.table };
  }
  const slim = detachRoot(result, parts);
  return slim === result ? message : { ...message, result: slim, parts: parts.table };
}

/** A root that is itself a text or a byte array has no path and stays in the JSON. */
function detachRoot(value: unknown, parts: Parts): unknown {
  if (typeof value !== 'object' || value === null || isUint8Array(value)) return value;
  parts.refusesLost = holdsPluginValues(value);
  return detach(value, ROOT, parts);
}

/**
 * Whether a message is a host call or the answer of a handler. Data of log lines may lose a value, and versions that were published
 * before the refusal existed must still load.
 */
const holdsPluginValues = (root: { readonly outcome?: unknown }): boolean =>
  root.outcome === 'answered' || 'member' in root;

/** The depth of a handler's result in its message. */
const RESULT_DEPTH = 1;

const PLAIN: unknown = Object.prototype;

/** Replaces the long parts of a value by null. Copies only the objects on the path to them. */
function detach(value: unknown, path: Path, parts: Parts): unknown {
  if (typeof value === 'string') return isPart(value, parts) ? parts.add(value, path) : value;
  if (typeof value !== 'object' || value === null) return value;
  parts.visits += 1;
  if (parts.visits > VISITS_MAX) return value;
  const isPlain = Object.getPrototypeOf(value) === PLAIN;
  // `isUint8Array` is false for a proxy of a byte array, whose traps would run plugin code while `set` writes the frame.
  if (!isPlain && isUint8Array(value)) {
    if (parts.contents.length >= PARTS_MAX)
      throw new FrameError(`a message holds at most ${PARTS_MAX} byte arrays and long texts`);
    return parts.add(value, path);
  }
  // `toJSON` determines the JSON of such a value.
  if ('toJSON' in value) return value;
  if (isPlain) return path.depth < PART_DEPTH_MAX ? detachFields(value, path, parts) : value;
  if (!Array.isArray(value)) {
    if (parts.refusesLost) refuseLost(value, path);
    return value;
  }
  if (value.length <= PART_ARRAY_MAX && path.depth < PART_DEPTH_MAX) return detachItems(value, path, parts);
  // The items of a long array are usually of one kind, such as the promises of `map(async …)`.
  if (parts.refusesLost) refuseLost(value[0], { key: 0, parent: path, depth: path.depth + 1 });
  return value;
}

/**
 * Refuses a value that would arrive as an empty object, or as null, although it holds something: a promise that the plugin did not
 * await, a `Map`, an `Error`. An instance with fields of its own arrives with them. An `AbortSignal` may be lost: handlers return their
 * whole context, and authors pass `signal` as they pass it to `fetch`. A result itself may be lost, too: arrow functions return what they
 * happen to end with, such as the Set of `set.add(id)`. `refuseLostResult` refuses it where an agent would read it.
 *
 * @throws TypeError
 */
function refuseLost(value: unknown, path: Path): void {
  if (path.depth <= RESULT_DEPTH) return;
  const kind = findLostKind(value);
  if (kind !== null) throw createLostError(kind, formatPath(path));
}

/**
 * Refuses a result that is itself lost, for handlers whose result an agent reads.
 *
 * @throws TypeError
 */
export function refuseLostResult(result: unknown): void {
  const kind = findLostKind(result);
  if (kind !== null) throw createLostError(kind, 'the result');
}

/** Returns the class of a value of which JSON keeps nothing, or `function`; null for other values. */
function findLostKind(value: unknown): string | null {
  if (typeof value === 'function') return 'function';
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isUint8Array(value)) return null;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || prototype === PLAIN || isBoxedPrimitive(value) || 'toJSON' in value) return null;
  if (Object.keys(value).length > 0) return null;
  const className = readClassName(value);
  return className === 'AbortSignal' ? null : className;
}

/** Names longer than this are cut in errors, characters. */
const NAME_MAX_CHARS = 100;

function readClassName(value: object): string {
  const tag = Object.prototype.toString.call(value).slice('[object '.length, -1);
  return (tag === 'Object' ? String(value.constructor?.name || tag) : tag).slice(0, NAME_MAX_CHARS);
}

const LOST_ADVICE: Readonly<Record<string, string>> = {
  function: 'Call it and pass what it returns',
  Promise: 'Await it first',
  Map: 'Pass Object.fromEntries(map)',
  Headers: 'Pass Object.fromEntries(headers)',
  FormData: 'Pass Object.fromEntries(formData)',
  URLSearchParams: 'Pass its toString()',
  Set: 'Pass [...set]',
  Error: 'Pass its message',
  Response: 'Pass await response.text()',
  ArrayBuffer: 'Pass new Uint8Array(buffer)',
};

function createLostError(kind: string, place: string): TypeError {
  const advice = Object.hasOwn(LOST_ADVICE, kind) ? LOST_ADVICE[kind] : 'Pass plain objects, arrays, texts and numbers';
  const what = kind === 'function' ? 'a function' : `an object of the class ${kind}`;
  return new TypeError(`${place} is ${what}, of which JSON keeps nothing. ${advice}`);
}

/** Searches a message that is no JSON for its first BigInt. Returns null if the fault is another one, such as a cycle. */
function findBigInt(message: object): TypeError | null {
  const { params, result } = message as { readonly params?: object; readonly result?: object };
  const paths = new Map<unknown, Path>([[params ?? result ?? message, ROOT]]);
  let found = null as Path | null;
  const record = (holder: unknown, key: string, value: unknown): void => {
    const parent = paths.get(holder);
    if (parent === undefined || found !== null) return;
    const path = { key: Array.isArray(holder) ? Number(key) : key, parent, depth: parent.depth + 1 };
    if (typeof value === 'bigint') found = path;
    else if (typeof value === 'object' && value !== null && !paths.has(value)) paths.set(value, path);
  };
  try {
    JSON.stringify(message, function (this: unknown, key: string, value: unknown) {
      record(this, key, value);
      return typeof value === 'bigint' ? null : value;
    });
  } catch {
    // The message has another fault, too.
  }
  return found && new TypeError(`${formatPath(found)} is a BigInt, which JSON cannot hold. Pass String(value)`);
}

/** Formats a path as code: `args[1].rates`. */
function formatPath({ key, parent }: Path): string {
  if (parent === null) return '';
  const before = formatPath(parent);
  if (typeof key === 'number') return `${before}[${key}]`;
  return `${before}${before && '.'}${key.slice(0, NAME_MAX_CHARS)}`;
}

/** A lone surrogate has no UTF-8 encoding. Such a string stays in the JSON, which escapes it. */
const isPart = (text: string, parts: Parts): boolean =>
  text.length >= PART_MIN_CHARS && parts.contents.length < PARTS_MAX && text.isWellFormed();

function detachItems(items: readonly unknown[], path: Path, parts: Parts): unknown {
  let copy: unknown[] | null = null;
  for (let index = 0; index < items.length; index += 1) {
    const item = items[index];
    if (typeof item === 'function' && parts.refusesLost)
      refuseLost(item, { key: index, parent: path, depth: path.depth + 1 });
    const slim = detach(item, { key: index, parent: path, depth: path.depth + 1 }, parts);
    if (slim !== item) {
      copy ??= [...items];
      copy[index] = slim;
    }
  }
  return copy ?? items;
}

function detachFields(fields: object, path: Path, parts: Parts): object {
  let copy: Record<string, unknown> | null = null;
  for (const key in fields) {
    const field = (fields as Record<string, unknown>)[key];
    if (typeof field !== 'object' && (typeof field !== 'string' || field.length < PART_MIN_CHARS)) continue;
    const slim = detach(field, { key, parent: path, depth: path.depth + 1 }, parts);
    if (slim !== field) {
      copy ??= { ...fields };
      copy[key] = slim;
    }
  }
  return copy ?? fields;
}

/**
 * Decodes the content of a frame of the supervisor.
 *
 * @throws FrameError unless the content is one object whose parts fill the frame exactly
 */
export const decodeMessage = (buffer: Buffer, start: number, end: number): Record<string, unknown> =>
  decode(buffer, start, end, null).message;

/**
 * `decodeMessage` for messages of plugins.
 *
 * @param admit called for a message that may hold U+0000 or lone surrogates; returns the message to use
 * @throws FrameError also for JSON that `readJson` refuses
 */
export function decodeUntrusted(
  buffer: Buffer,
  start: number,
  end: number,
  admit?: (message: Record<string, unknown>) => Record<string, unknown>,
): Record<string, unknown> {
  const { message, isSuspect } = decode(buffer, start, end, FRAME_BOUNDS);
  return isSuspect && admit ? admit(message) : message;
}

interface Decoded {
  readonly message: Record<string, unknown>;
  /** Whether a text may hold U+0000 or a lone surrogate: the JSON has an escape, or a part the character itself. */
  isSuspect: boolean;
}

function decode(buffer: Buffer, start: number, end: number, bounds: JsonBounds | null): Decoded {
  const headEnd = findHeadEnd(buffer, start, end);
  const { value, isSuspect } = readHead(buffer, start + LENGTH_BYTES, headEnd, bounds);
  const decoded = { message: requireObject(value), isSuspect };
  const partsEnd = Object.hasOwn(decoded.message, 'parts') ? attachParts(decoded, buffer, headEnd, end) : headEnd;
  if (partsEnd !== end) throw new FrameError('the parts of a message do not fill its frame');
  return decoded;
}

function findHeadEnd(buffer: Buffer, start: number, end: number): number {
  const headStart = start + LENGTH_BYTES;
  const headEnd = end < headStart ? Number.POSITIVE_INFINITY : headStart + buffer.readUInt32LE(start);
  if (headEnd > end) throw new FrameError('a frame shorter than its head');
  return headEnd;
}

function readHead(buffer: Buffer, start: number, end: number, bounds: JsonBounds | null): ReadJson {
  try {
    return readJson(buffer, start, end, bounds);
  } catch (error) {
    throw describeRefusal(error);
  }
}

const describeRefusal = (error: unknown): unknown =>
  error instanceof JsonError ? new FrameError(`a message that ${error.message}`) : error;

function requireObject(message: unknown): Record<string, unknown> {
  if (typeof message !== 'object' || message === null || Array.isArray(message))
    throw new FrameError('a message that is not a JSON object');
  return message as Record<string, unknown>;
}

/** Puts the parts of a frame back into its message. @returns the end of the last part */
function attachParts(decoded: Decoded, buffer: Buffer, start: number, end: number): number {
  const { params, result, parts: table } = decoded.message;
  const root = result === undefined ? params : result;
  if (!Array.isArray(table) || table.length > PARTS_MAX * (PART_DEPTH_MAX + PART_EXTRAS))
    throw new FrameError('the parts of a message are not a list');
  let at = start;
  for (let entry = 0; entry < table.length; ) {
    const depth: unknown = table[entry];
    if (!isCount(depth) || depth === 0 || depth > PART_DEPTH_MAX) throw new FrameError('a malformed path to a part');
    const firstKey = entry + 1;
    const kind: unknown = table[firstKey + depth];
    const length: unknown = table[firstKey + depth + 1];
    if ((kind !== TEXT && kind !== BYTES) || !isCount(length) || at + length > end)
      throw new FrameError('a malformed part');
    const content = kind === TEXT ? readPart(buffer, at, at + length) : copyBytes(buffer, at, length);
    if (typeof content === 'string') decoded.isSuspect ||= content.includes('\0');
    placePart(root, table, firstKey, depth, content);
    at += length;
    entry = firstKey + depth + 2;
  }
  return at;
}

/** @throws FrameError rather than repair bytes that are not UTF-8 */
function readPart(buffer: Buffer, start: number, end: number): string {
  try {
    return decodeUtf8(buffer, start, end);
  } catch (error) {
    throw describeRefusal(error);
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function copyBytes(buffer: Buffer, at: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  buffer.copy(bytes, 0, at, at + length);
  return bytes;
}

/** Follows own keys to a null, so that a path can neither reach a prototype nor overwrite a value of the JSON. */
function placePart(root: unknown, table: readonly unknown[], start: number, depth: number, content: unknown): void {
  let node = root;
  for (let at = start + depth - 1; at >= start; at -= 1) {
    const key = table[at];
    if (typeof key !== 'string' && typeof key !== 'number') throw new FrameError('a malformed path to a part');
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) break;
    const fields = node as Record<Key, unknown>;
    if (at > start) node = fields[key];
    else if (fields[key] === null) {
      // An own key, even `__proto__`, so the assignment calls no setter.
      fields[key] = content;
      return;
    }
  }
  throw new FrameError('a part of a message has no place');
}

/**
 * Refuses a message that the supervisor would not read. The child calls it before it sends.
 *
 * @param start start of the frame's content
 * @throws FrameError
 */
export function refuseCostlyMessage(buffer: Buffer, start: number, end: number): void {
  const headStart = start + LENGTH_BYTES;
  const headEnd = Math.min(headStart + buffer.readUInt32LE(start), end);
  try {
    checkCost(buffer, headStart, headEnd, FRAME_BOUNDS);
  } catch (error) {
    throw describeRefusal(error);
  }
}
