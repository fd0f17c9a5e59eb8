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
/**
 * The same for what the supervisor sends: the cap above protects it from its children, and a webhook request of 5 MiB
 * with its headers has to fit this way.
 */
export const FRAME_TO_CHILD_MAX_BYTES = 8_388_608;
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

/**
 * Of each part: how many keys lead to it, the keys, what it is, how many bytes it has. All parts in one list, because
 * JSON reads and writes one list of six in half the time of three nested ones.
 */
type Table = (string | number)[];
const TEXT = 0;
const BYTES = 1;
/** Entries of a part beside its keys. */
const PART_EXTRAS = 3;
/** A head of more characters has its bytes counted before there is memory for it. */
const HEAD_COUNTED_CHARS = 4_096;
/** Its short name keeps it out of the way of JSON-RPC's. */
interface Head extends Message {
  '@'?: Table;
}
/** Thrown for a frame that no honest peer sends. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

/**
 * One message as one frame at the start of a buffer; `frameLength` tells where it ends.
 *
 * @param allocate gives the memory, at least so many bytes; it is written at once
 * @param most bytes it may have after its first four
 * @throws RangeError over `most`,
 *   what a getter or `toJSON` of a plugin's value throws, and TypeError for cycles and BigInts
 */
export function encodeFrame(
  message: Message,
  allocate: (bytes: number) => Buffer,
  most: number = FRAME_MAX_BYTES,
): Buffer {
  const found = new Found();
  const slim = detach(message, 0, found) as Head;
  const { contents } = found;
  // Something was taken out of it, so it is a copy by now.
  if (contents.length > 0) slim['@'] = found.table;
  const head = JSON.stringify(slim);
  // Where even the most bytes it can have are few, counting them first would be a walk too many.
  const headMost = head.length <= HEAD_COUNTED_CHARS ? 3 * head.length : Buffer.byteLength(head);
  if (HEADER_BYTES + headMost + found.bytes - 4 > most) refuseLarge(head, found.bytes, most);
  const frame = allocate(HEADER_BYTES + headMost + found.bytes);
  const headBytes = frame.write(head, HEADER_BYTES);
  let at = HEADER_BYTES + headBytes;
  for (const content of contents) {
    if (typeof content === 'string') at += frame.write(content, at);
    else {
      frame.set(content, at);
      at += content.byteLength;
    }
  }
  frame.writeUInt32LE(at - 4, 0);
  frame.writeUInt32LE(headBytes, 4);
  return frame;
}

function refuseLarge(head: string, partBytes: number, most: number): void {
  const length = HEADER_BYTES + Buffer.byteLength(head) + partBytes;
  if (length - 4 > most) throw new RangeError(`a message of ${length} bytes; the limit is ${most}`);
}

/** Bytes of the frame at the start of a buffer. */
export const frameLength = (frame: Buffer): number => 4 + frame.readUInt32LE(0);

/** What a walk took out of a message. */
class Found {
  readonly table: Table = [];
  readonly contents: (string | Uint8Array)[] = [];
  bytes = 0;

  /** Keeps one part, at the first `depth` keys of the walk. Answers what stands in its place. */
  take(content: string | Uint8Array, depth: number): null {
    const isText = typeof content === 'string';
    const bytes = isText ? Buffer.byteLength(content) : content.byteLength;
    const { table } = this;
    table.push(depth);
    for (let at = 0; at < depth; at += 1) table.push(walk[at] as string | number);
    table.push(isText ? TEXT : BYTES, bytes);
    this.contents.push(content);
    this.bytes += bytes;
    return null;
  }
}

/** Where the walk is: one path for all of it, copied where something is found. */
const walk: (string | number)[] = new Array(PART_DEPTH).fill('');
const PLAIN: unknown = Object.prototype;

/** The value with its long parts replaced by null, copied only along the way to them. */
function detach(value: unknown, depth: number, found: Found): unknown {
  if (typeof value === 'string') return isPartText(value, found) ? found.take(value, depth) : value;
  if (typeof value !== 'object' || value === null) return value;
  const plain = Object.getPrototypeOf(value) === PLAIN;
  if (!plain && value instanceof Uint8Array) {
    if (found.contents.length >= PARTS_MAX) throw new FrameError(`a message holds at most ${PARTS_MAX} byte arrays`);
    return found.take(value, depth);
  }
  // A value with `toJSON` decides for itself what its JSON is, so nothing may be taken out of it.
  if (depth >= PART_DEPTH || 'toJSON' in value) return value;
  if (plain) return detachFields(value, depth, found);
  return Array.isArray(value) && value.length <= PART_ARRAY_MAX ? detachItems(value, depth, found) : value;
}

/** A lone surrogate has no UTF-8: such a string stays in the JSON, which escapes it. */
const isPartText = (text: string, found: Found): boolean =>
  text.length >= PART_MIN_CHARS && found.contents.length < PARTS_MAX && text.isWellFormed();

function detachItems(items: readonly unknown[], depth: number, found: Found): unknown {
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

function detachFields(fields: object, depth: number, found: Found): unknown {
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
    // Most heads escape nothing at all, which is quicker to see than what they escape.
    const halved = text.includes('\\') && SURROGATE_ESCAPE.test(text);
    head = halved ? JSON.parse(text, wellFormed) : JSON.parse(text);
  } catch {
    throw new FrameError('the head of a frame is not JSON');
  }
  if (typeof head !== 'object' || head === null || Array.isArray(head)) throw new FrameError('a frame is no message');
  const at = Object.hasOwn(head, '@') ? attach(head, buffer, headEnd, end) : headEnd;
  if (at !== end) throw new FrameError('the parts of a frame do not fill it');
  return head;
}

function attach(head: Head, buffer: Buffer, start: number, end: number): number {
  const table: unknown = head['@'];
  if (!Array.isArray(table) || table.length > PARTS_MAX * (PART_DEPTH + PART_EXTRAS))
    throw new FrameError('the parts of a frame are no list');
  let at = start;
  for (let entry = 0; entry < table.length; ) {
    const keys = entry + 1;
    const depth: unknown = table[entry];
    if (!isCount(depth) || depth === 0 || depth > PART_DEPTH) throw new FrameError('a path in a frame is malformed');
    const kind: unknown = table[keys + depth];
    const length: unknown = table[keys + depth + 1];
    if ((kind !== TEXT && kind !== BYTES) || !isCount(length) || at + length > end)
      throw new FrameError('a part of a frame is malformed');
    const content = kind === TEXT ? buffer.toString('utf8', at, at + length) : copyOf(buffer, at, length);
    place(head, table, keys, depth, content);
    at += length;
    entry = keys + depth + 2;
  }
  return at;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function copyOf(buffer: Buffer, at: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  buffer.copy(bytes, 0, at, at + length);
  return bytes;
}

/** Own keys that hold null only: a path can neither climb a prototype nor replace what the JSON says. */
function place(root: object, table: readonly unknown[], start: number, depth: number, content: unknown): void {
  let node: unknown = root;
  const last = start + depth - 1;
  for (let at = start; at <= last; at += 1) {
    const key = table[at];
    if (typeof key !== 'string' && typeof key !== 'number') throw new FrameError('a path in a frame is malformed');
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) break;
    const fields = node as Record<string | number, unknown>;
    if (at < last) node = fields[key];
    else if (fields[key] === null) {
      // The key is its own, `__proto__` included, so this sets it and calls nobody's setter.
      fields[key] = content;
      return;
    }
  }
  throw new FrameError('a part of a frame has no place');
}
