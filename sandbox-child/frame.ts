/**
 * How one message travels, on both sides of the jail:
 *
 *     u32 length of the rest │ u32 length of the head │ head, JSON │ parts, raw
 *
 * Long strings and byte arrays leave the JSON and follow it as raw parts, because escaping and scanning them is most of
 * what a message costs: a 4 KB prompt there and back takes 23 µs of processor this way and 31 µs as plain JSON.
 */

/** A JSON-RPC message; which fields are set tells requests, answers and notices apart. */
export interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
}

/** Bytes before the head. */
export const HEADER_BYTES = 8;
/** Bytes after the first four: `limits.frameBytes`, said again because the child takes no values from the SDK. */
export const FRAME_MAX_BYTES = 4_194_304;
/** Shorter strings are cheaper inside the JSON. Characters. */
const PART_MIN_CHARS = 512;
/** Deeper values stay in the JSON: the protocol's own bytes and long texts sit higher. */
const PART_DEPTH = 7;
/** Longer arrays (a transcript's messages) are left whole to `JSON.stringify`, which walks them faster. */
const PART_ARRAY_MAX = 32;
const PARTS_MAX = 256;
/** Deeper JSON is built to overflow the stack of whoever walks it. */
const NESTING_MAX = 128;
/** So little text cannot be nested too deeply. */
const SHALLOW_BYTES = 2 * NESTING_MAX;

/** Where a part belongs, what it is, and how many bytes it has. */
type Part = [path: (string | number)[], kind: 'text' | 'bytes', length: number];
/** Its short name keeps it out of the way of JSON-RPC's. */
interface Head extends Message {
  readonly '@'?: readonly Part[];
}
/** Thrown for a frame that no honest peer sends. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

/**
 * One message as one buffer.
 *
 * @param allocate gives the memory, of exactly so many bytes; it is written at once
 * @throws RangeError over `FRAME_MAX_BYTES`,
 *   what a getter or `toJSON` of a plugin's value throws, and TypeError for cycles and BigInts
 */
export function encodeFrame(message: Message, allocate: (bytes: number) => Buffer): Buffer {
  const found: Found[] = [];
  let slim = detach(message, 0, found);
  if (found.length > 0) slim = { ...(slim as Message), '@': found.map(describe) };
  const head = JSON.stringify(slim);
  const headBytes = Buffer.byteLength(head);
  let length = HEADER_BYTES + headBytes;
  for (const part of found) length += part.bytes;
  if (length - 4 > FRAME_MAX_BYTES)
    throw new RangeError(`a message of ${length} bytes; the limit is ${FRAME_MAX_BYTES}`);
  const frame = allocate(length);
  frame.writeUInt32LE(length - 4, 0);
  frame.writeUInt32LE(headBytes, 4);
  let at = HEADER_BYTES + frame.write(head, HEADER_BYTES);
  for (const { content, bytes } of found) {
    if (typeof content === 'string') frame.write(content, at);
    else frame.set(content, at);
    at += bytes;
  }
  return frame;
}

interface Found {
  readonly path: (string | number)[];
  readonly content: string | Uint8Array;
  readonly bytes: number;
}
const describe = ({ path, content, bytes }: Found): Part => [
  path,
  typeof content === 'string' ? 'text' : 'bytes',
  bytes,
];

/** Where the walk is: one path for all of it, copied where something is found. */
const walk: (string | number)[] = new Array(PART_DEPTH).fill('');

/** The value with its long parts replaced by null, copied only along the way to them. */
function detach(value: unknown, depth: number, found: Found[]): unknown {
  if (typeof value === 'string')
    return isPartText(value, found) ? take(value, Buffer.byteLength(value), depth, found) : value;
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) {
    if (found.length >= PARTS_MAX) throw new FrameError(`a message holds at most ${PARTS_MAX} byte arrays`);
    return take(value, value.byteLength, depth, found);
  }
  // A value with `toJSON` decides for itself what its JSON is, so nothing may be taken out of it.
  if (depth >= PART_DEPTH || 'toJSON' in value) return value;
  if (Array.isArray(value)) return value.length > PART_ARRAY_MAX ? value : detachItems(value, depth, found);
  return Object.getPrototypeOf(value) === Object.prototype ? detachFields(value, depth, found) : value;
}

/** A lone surrogate has no UTF-8: such a string stays in the JSON, which escapes it. */
const isPartText = (text: string, found: readonly Found[]): boolean =>
  text.length >= PART_MIN_CHARS && found.length < PARTS_MAX && text.isWellFormed();

function take(content: string | Uint8Array, bytes: number, depth: number, found: Found[]): null {
  found.push({ path: walk.slice(0, depth), content, bytes });
  return null;
}

function detachItems(items: readonly unknown[], depth: number, found: Found[]): unknown {
  let copy: unknown[] | null = null;
  for (let index = 0; index < items.length; index += 1) {
    walk[depth] = index;
    const item = items[index];
    const slim = detach(item, depth + 1, found);
    if (slim !== item) {
      copy ??= [...items];
      copy[index] = slim;
    }
  }
  return copy ?? items;
}

function detachFields(fields: object, depth: number, found: Found[]): unknown {
  let copy: Record<string, unknown> | null = null;
  // Its prototype has no enumerable keys: these are its own.
  for (const key in fields) {
    const field = (fields as Record<string, unknown>)[key];
    if (typeof field !== 'object' && (typeof field !== 'string' || field.length < PART_MIN_CHARS)) continue;
    walk[depth] = key;
    const slim = detach(field, depth + 1, found);
    if (slim !== field) {
      copy ??= { ...fields };
      copy[key] = slim;
    }
  }
  return copy ?? fields;
}

const [QUOTE, BACKSLASH, OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = Buffer.from('"\\[]{}');

/**
 * Refuses JSON that opens more brackets inside each other than is decent, before anybody walks it. For what plugins say:
 * called by the child before it sends, and by the supervisor before it reads.
 *
 * @throws FrameError
 */
export function refuseDeep(buffer: Buffer, start: number, headEnd: number): void {
  if (isTooDeep(buffer, start, headEnd)) throw new FrameError(`more than ${NESTING_MAX} levels of nesting`);
}

function isTooDeep(buffer: Buffer, start: number, end: number): boolean {
  if (end - start < SHALLOW_BYTES) return false;
  let depth = 0;
  let quoted = false;
  for (let at = start; at < end; at += 1) {
    const byte = buffer[at];
    if (byte === QUOTE) quoted = !quoted;
    else if (quoted) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) {
      depth += 1;
      if (depth > NESTING_MAX) return true;
    } else if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) depth -= 1;
  }
  return false;
}

/** May stand for half a character, which neither UTF-8 nor the database can hold. */
const SURROGATE_ESCAPE = /\\u[dD]/;
const wellFormed = (_key: string, value: unknown): unknown =>
  typeof value === 'string' ? value.toWellFormed() : value;

/**
 * Reads a frame back.
 *
 * @param buffer holds the whole frame
 * @param start where its head starts, after the header
 * @param headEnd where its head ends and its parts start
 * @param end where it ends
 * @throws FrameError for anything but an object with parts that fit it exactly
 */
export function decodeFrame(buffer: Buffer, start: number, headEnd: number, end: number): Message {
  let head: Head;
  try {
    const text = buffer.toString('utf8', start, headEnd);
    head = JSON.parse(text, SURROGATE_ESCAPE.test(text) ? wellFormed : undefined);
  } catch {
    throw new FrameError('the head of a frame is not JSON');
  }
  if (typeof head !== 'object' || head === null || Array.isArray(head)) throw new FrameError('a frame is no message');
  const at = Object.hasOwn(head, '@') ? attach(head, buffer, headEnd, end) : headEnd;
  if (at !== end) throw new FrameError('the parts of a frame do not fill it');
  return head;
}

function attach(head: Head, buffer: Buffer, start: number, end: number): number {
  const parts: unknown = head['@'];
  if (!Array.isArray(parts) || parts.length > PARTS_MAX) throw new FrameError('the parts of a frame are no list');
  let at = start;
  for (const part of parts) {
    if (!isPart(part) || at + part[2] > end) throw new FrameError('a part of a frame is malformed');
    const [path, kind, length] = part;
    const content = kind === 'text' ? buffer.toString('utf8', at, at + length) : new Uint8Array(length);
    if (typeof content !== 'string') buffer.copy(content, 0, at, at + length);
    place(head, path, content);
    at += length;
  }
  return at;
}

const isPart = (part: unknown): part is Part =>
  Array.isArray(part) &&
  part.length === 3 &&
  Array.isArray(part[0]) &&
  part[0].length > 0 &&
  part[0].length <= PART_DEPTH &&
  (part[1] === 'text' || part[1] === 'bytes') &&
  Number.isSafeInteger(part[2]) &&
  part[2] >= 0;

/** Own keys that hold null only: a path can neither climb a prototype nor replace what the JSON says. */
function place(root: object, path: readonly unknown[], content: unknown): void {
  let node: unknown = root;
  for (let depth = 0; depth < path.length; depth += 1) {
    const key = path[depth];
    if (typeof key !== 'string' && typeof key !== 'number') throw new FrameError('a path in a frame is malformed');
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) break;
    const fields = node as Record<string | number, unknown>;
    if (depth < path.length - 1) node = fields[key];
    else if (fields[key] === null) {
      // The key is its own, `__proto__` included, so this sets it and calls nobody's setter.
      fields[key] = content;
      return;
    }
  }
  throw new FrameError('a part of a frame has no place');
}
