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
 * @throws RangeError over `FRAME_MAX_BYTES`,
 *   what a getter or `toJSON` of a plugin's value throws, and TypeError for cycles and BigInts
 */
export function encodeFrame(message: Message): Buffer {
  const found: Found[] = [];
  const slim = detach(message, [], found) as Message;
  const parts = found.map(({ path, content }): Part => {
    const text = typeof content === 'string';
    return [path, text ? 'text' : 'bytes', text ? Buffer.byteLength(content) : content.byteLength];
  });
  const head = JSON.stringify(parts.length > 0 ? { ...slim, '@': parts } : slim);
  const headBytes = Buffer.byteLength(head);
  const length = parts.reduce((sum, part) => sum + part[2], HEADER_BYTES + headBytes);
  if (length - 4 > FRAME_MAX_BYTES)
    throw new RangeError(`a message of ${length} bytes; the limit is ${FRAME_MAX_BYTES}`);
  const frame = Buffer.allocUnsafe(length);
  frame.writeUInt32LE(length - 4, 0);
  frame.writeUInt32LE(headBytes, 4);
  let at = HEADER_BYTES + frame.write(head, HEADER_BYTES);
  for (const { content } of found) {
    if (typeof content === 'string') at += frame.write(content, at);
    else {
      frame.set(content, at);
      at += content.byteLength;
    }
  }
  return frame;
}

/** May stand for half a character, which neither UTF-8 nor the database can hold. */
const SURROGATE_ESCAPE = /\\u[dD]/;
const wellFormed = (_key: string, value: unknown): unknown =>
  typeof value === 'string' ? value.toWellFormed() : value;

interface Found {
  readonly path: (string | number)[];
  readonly content: string | Uint8Array;
}

/** The value with its long parts replaced by null, copied only along the way to them. */
function detach(value: unknown, path: (string | number)[], found: Found[]): unknown {
  if (typeof value === 'string') {
    // A lone surrogate has no UTF-8: such a string stays in the JSON, which escapes it.
    if (value.length < PART_MIN_CHARS || found.length >= PARTS_MAX || !value.isWellFormed()) return value;
    found.push({ path, content: value });
    return null;
  }
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) {
    if (found.length >= PARTS_MAX) throw new FrameError(`a message holds at most ${PARTS_MAX} byte arrays`);
    found.push({ path, content: value });
    return null;
  }
  if (path.length >= PART_DEPTH || (Array.isArray(value) && value.length > PART_ARRAY_MAX)) return value;
  if (Array.isArray(value)) return detachItems(value, path, found);
  return Object.getPrototypeOf(value) === Object.prototype ? detachFields(value, path, found) : value;
}

/** Such a value decides for itself what its JSON is, so nothing may be taken out of it. */
const saysItself = (value: object): boolean => 'toJSON' in value;

function detachItems(items: readonly unknown[], path: (string | number)[], found: Found[]): unknown {
  if (saysItself(items)) return items;
  let copy: unknown[] | null = null;
  for (let index = 0; index < items.length; index += 1) {
    const item = items[index];
    const slim = detach(item, [...path, index], found);
    if (slim !== item) {
      copy ??= [...items];
      copy[index] = slim;
    }
  }
  return copy ?? items;
}

function detachFields(fields: object, path: (string | number)[], found: Found[]): unknown {
  if (saysItself(fields)) return fields;
  let copy: Record<string, unknown> | null = null;
  for (const [key, field] of Object.entries(fields)) {
    if (typeof field !== 'string' ? typeof field !== 'object' || field === null : field.length < PART_MIN_CHARS)
      continue;
    const slim = detach(field, [...path, key], found);
    if (slim !== field) {
      copy ??= { ...fields };
      copy[key] = slim;
    }
  }
  return copy ?? fields;
}

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
  for (const [depth, key] of path.entries()) {
    if (typeof key !== 'string' && typeof key !== 'number') throw new FrameError('a path in a frame is malformed');
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) break;
    const fields = node as Record<string | number, unknown>;
    if (depth < path.length - 1) node = fields[key];
    else if (fields[key] === null) {
      Object.defineProperty(fields, key, { value: content, writable: true, enumerable: true, configurable: true });
      return;
    }
  }
  throw new FrameError('a part of a frame has no place');
}
