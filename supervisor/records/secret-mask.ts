/**
 * Replaces the values of an installation's secrets in what leaves its child: log lines, errors, answers and posted messages. A
 * plugin that logs a key by mistake then logs `[secret apiKey]`. It is no wall against a plugin that hides a value on purpose:
 * secrets with a `use` never reach the child.
 */
import { randomInt } from 'node:crypto';
import { mapTexts } from '../../db/postgres/storable-json.ts';

/** Shorter values are not masked: they occur in texts by chance. Characters. */
const VALUE_MIN_CHARS = 6;
/** A secret of several lines, such as a private key, is also masked line by line. Characters. */
const LINE_MIN_CHARS = 16;
/** The frame of a PEM file is no secret. */
const PEM_FRAME = /^-----/;

/** The search compares blocks of two characters by their hash. */
const BLOCK_CHARS = 2;
const HASHES = 4_096;
/** Characters of a form that are kept. The rest of a longer one is encoded again when its head is found. */
const HEAD_CHARS = 64;

/** One way to write a secret. */
interface Form {
  readonly head: string;
  readonly chars: number;
  readonly replacement: string;
  /** The whole form. */
  read(): string;
}

export class SecretMask {
  readonly #values = new Map<string, string>();
  readonly #forms: Form[] = [];
  #search: FormSearch | null = null;

  /** Whether there is nothing to mask. */
  get isEmpty(): boolean {
    return this.#forms.length === 0;
  }

  /** Masks a value from now on. Earlier values of the secret stay masked, because a running child may know them. */
  add(name: string, value: string): void {
    if (this.#values.get(name) === value) return;
    this.#values.set(name, value);
    this.#forms.push(...listForms(name, value));
    this.#search = this.isEmpty ? null : new FormSearch(this.#forms);
  }

  /** @param isCut whether the text may end within a value, because it was shortened */
  maskText(text: string, isCut = false): string {
    const masked = this.#search?.replace(text) ?? text;
    return isCut ? this.#maskEnd(masked) : masked;
  }

  /** Masks every text of a JSON value, property names as well. Returns the same value where nothing is found. */
  mask<T>(value: T, isCut = false): T {
    return this.isEmpty ? value : mapTexts(value, (text) => this.maskText(text, isCut));
  }

  /** Masks a text that arrives in pieces. */
  openStream(): MaskedStream {
    return new MaskedStream(this.#search);
  }

  /** Whether a text or the bytes of a JSON value hold a secret. */
  isFoundIn(value: unknown): boolean {
    if (value instanceof Uint8Array) return this.isFoundIn(Buffer.from(value).toString('latin1'));
    return this.mask(value) !== value;
  }

  #maskEnd(text: string): string {
    for (const form of this.#forms) {
      const whole = form.read();
      for (let chars = Math.min(form.chars, text.length); chars >= VALUE_MIN_CHARS; chars -= 1)
        if (text.endsWith(whole.slice(0, chars))) return text.slice(0, -chars) + form.replacement;
    }
    return text;
  }
}

/**
 * Masks a text that arrives in pieces: what it returns together is what `maskText` makes of the whole. The end of a piece is held
 * back while it may begin a secret.
 */
export class MaskedStream {
  readonly #search: FormSearch | null;
  #held = '';

  constructor(search: FormSearch | null) {
    this.#search = search;
  }

  /** @returns what is certain by now */
  push(piece: string): string {
    if (this.#search === null) return piece;
    const { masked, rest } = this.#search.replaceCertain(this.#held + piece);
    this.#held = rest;
    return masked;
  }

  /** @returns what was held back, when nothing follows it */
  end(): string {
    const held = this.#held;
    this.#held = '';
    return this.#search?.replace(held) ?? held;
  }
}

/** The masks of all installations whose secrets this supervisor has read. */
export class SecretMasks {
  readonly #byInstallation = new Map<string, SecretMask>();

  /** The mask of an installation; an empty one if none of its secrets was read. */
  get(installationId: string): SecretMask {
    return this.#byInstallation.get(installationId) ?? EMPTY;
  }

  /** Returns the mask that the installation's values are added to. */
  open(installationId: string): SecretMask {
    const known = this.#byInstallation.get(installationId) ?? new SecretMask();
    this.#byInstallation.set(installationId, known);
    return known;
  }

  /** Forgets the values of an installation that has no child any more. */
  drop(installationId: string): void {
    this.#byInstallation.delete(installationId);
  }
}
const EMPTY = new SecretMask();

function listForms(name: string, value: string): Form[] {
  const replacement = `[secret ${name}]`;
  const forms = new Map<string, Form>();
  const add = (encode: () => string): void => {
    const whole = encode();
    // Of two encodings that are equal, the first is the cheaper one.
    if (whole.length < VALUE_MIN_CHARS || forms.has(whole)) return;
    const isShort = whole.length <= HEAD_CHARS;
    const head = isShort ? whole : whole.slice(0, HEAD_CHARS);
    forms.set(whole, { head, chars: whole.length, replacement, read: isShort ? () => head : encode });
  };
  if (value.length >= VALUE_MIN_CHARS) {
    add(() => value);
    for (const encode of ENCODINGS) add(() => encode(value));
  }
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  if (lines.length > 1)
    for (const line of lines) if (line.length >= LINE_MIN_CHARS && !PEM_FRAME.test(line)) add(() => line);
  return [...forms.values()];
}

const hex = (value: string): string => Buffer.from(value).toString('hex');
const percent = (value: string): string => encodeURIComponent(value.toWellFormed());

const escapeJson = (value: string): string => JSON.stringify(value).slice(1, -1);

const ENCODINGS: readonly ((value: string) => string)[] = [
  escapeJson,
  // In JSON inside a text of JSON, such as data of a log line that the child has shortened.
  (value) => escapeJson(escapeJson(value)),
  percent,
  (value) => percent(value).replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
  // As a form encodes it, with + for a blank.
  (value) => new URLSearchParams([['', value]]).toString().slice(1),
  hex,
  (value) => hex(value).toUpperCase(),
  ...(['base64', 'base64url'] as const).flatMap((encoding) => [
    (value: string) => Buffer.from(value).toString(encoding).replace(/=+$/, ''),
    // Inside a longer text, such as `user:password`, a value begins at any of three places of a group of four characters.
    ...[0, 1, 2].map((offset) => (value: string) => encodeWithin(value, encoding, offset)),
  ]),
];

const BYTE_BITS = 8;
const BASE64_BITS = 6;
/** The characters that depend on the value alone when `offset` bytes come before it. */
function encodeWithin(value: string, encoding: 'base64' | 'base64url', offset: number): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(value)]);
  const start = Math.ceil((offset * BYTE_BITS) / BASE64_BITS);
  return bytes.toString(encoding).slice(start, Math.floor((bytes.byteLength * BYTE_BITS) / BASE64_BITS));
}

/**
 * Finds many texts in one pass (Wu and Manber): the last block of a window as long as the shortest form says how far no form can
 * begin. A prompt of 4 KB without a secret takes a few microseconds, however many forms there are.
 */
class FormSearch {
  readonly #forms: readonly Form[];
  readonly #formMaxChars: number;
  readonly #windowChars: number;
  /** By the hash of a block: characters to skip; 0: a form may begin here. */
  readonly #skips: Uint8Array;
  /** By the hash of the last block of a form's window: the forms, the longest first. */
  readonly #candidates = new Map<number, Form[]>();
  /** Long forms that were encoded for the text that is searched now: it may hold the head of one at every character. */
  readonly #encoded = new Map<Form, HashedText>();
  /** The text that is searched now, once it holds the head of a long form. */
  #hashed: HashedText | null = null;

  constructor(forms: readonly Form[]) {
    this.#forms = [...forms];
    this.#formMaxChars = Math.max(...forms.map(({ chars }) => chars));
    this.#windowChars = Math.min(...forms.map(({ head }) => head.length));
    const skipMax = this.#windowChars - BLOCK_CHARS + 1;
    this.#skips = new Uint8Array(HASHES).fill(skipMax);
    for (const form of forms.toSorted((one, other) => other.chars - one.chars)) this.#add(form);
  }

  #add(form: Form): void {
    const last = this.#windowChars - 1;
    for (let at = BLOCK_CHARS - 1; at <= last; at += 1) {
      const hash = hashBlock(form.head, at);
      this.#skips[hash] = Math.min(this.#skips[hash] ?? 0, last - at);
    }
    const hash = hashBlock(form.head, last);
    const known = this.#candidates.get(hash);
    if (known) known.push(form);
    else this.#candidates.set(hash, [form]);
  }

  replace(text: string): string {
    this.#forgetText();
    let replaced = '';
    let copiedTo = 0;
    for (let found = this.#find(text, 0); found; found = this.#find(text, copiedTo)) {
      replaced += text.slice(copiedTo, found.start) + found.form.replacement;
      copiedTo = found.start + found.form.chars;
    }
    return copiedTo === 0 ? text : replaced + text.slice(copiedTo);
  }

  /** Replaces what no further text can change; `rest` may begin a form that is longer than the text. */
  replaceCertain(text: string): { readonly masked: string; readonly rest: string } {
    this.#forgetText();
    let masked = '';
    let copiedTo = 0;
    let openFrom = this.#findOpen(text, 0);
    for (;;) {
      const found = this.#find(text, copiedTo);
      if (openFrom < copiedTo) openFrom = this.#findOpen(text, copiedTo);
      if (!found || openFrom <= found.start)
        return { masked: masked + text.slice(copiedTo, openFrom), rest: text.slice(openFrom) };
      masked += text.slice(copiedTo, found.start) + found.form.replacement;
      copiedTo = found.start + found.form.chars;
    }
  }

  /** Finds the first form that begins at `from` or later, the longest of several. */
  #find(text: string, from: number): { readonly start: number; readonly form: Form } | null {
    for (let at = from + this.#windowChars - 1; at < text.length; ) {
      const hash = hashBlock(text, at);
      const skip = this.#skips[hash] ?? 1;
      const start = at - this.#windowChars + 1;
      const form = skip > 0 ? undefined : this.#candidates.get(hash)?.find((each) => this.#isAt(text, start, each));
      if (form) return { start, form };
      at += Math.max(skip, 1);
    }
    return null;
  }

  /** Finds the first place from which the rest of a text is the beginning of a form. The length of the text: there is no such place. */
  #findOpen(text: string, from: number): number {
    for (let at = Math.max(from, text.length - this.#formMaxChars + 1); at < text.length; at += 1)
      if (this.#forms.some((form) => this.#isOpenAt(text, at, form))) return at;
    return text.length;
  }

  #isAt(text: string, start: number, form: Form): boolean {
    if (text.length - start < form.chars || !text.startsWith(form.head, start)) return false;
    return form.chars === form.head.length || this.#hash(text).hasAt(start, this.#encode(form), form.chars);
  }

  /** Whether the rest of a text is the beginning of a form, but not all of it. */
  #isOpenAt(text: string, at: number, form: Form): boolean {
    const chars = text.length - at;
    if (chars >= form.chars || text.charCodeAt(at) !== form.head.charCodeAt(0)) return false;
    const headChars = Math.min(chars, form.head.length);
    if (!form.head.startsWith(text.slice(at, at + headChars))) return false;
    return chars === headChars || this.#hash(text).hasAt(at, this.#encode(form), chars);
  }

  #forgetText(): void {
    this.#encoded.clear();
    this.#hashed = null;
  }

  #hash(text: string): HashedText {
    this.#hashed ??= new HashedText(text);
    return this.#hashed;
  }

  #encode(form: Form): HashedText {
    const known = this.#encoded.get(form);
    if (known) return known;
    const whole = new HashedText(form.read());
    this.#encoded.set(form, whole);
    return whole;
  }
}

/** A prime whose square a number holds exactly. */
const HASH_PRIME = 67_108_859;
/** Random, so that an author cannot write a text whose parts have the same hash. */
const HASH_BASE = randomInt(2 ** 16, HASH_PRIME);

/**
 * A text whose parts are compared by their hashes (Rabin and Karp). Without them, a text that holds the head of a long secret at
 * every character would be compared to the secret's end at every character.
 */
class HashedText {
  readonly text: string;
  /** At each place the hash of what comes before it, and the power of the base. */
  readonly #hashes: Uint32Array;
  readonly #powers: Uint32Array;

  constructor(text: string) {
    this.text = text;
    this.#hashes = new Uint32Array(text.length + 1);
    this.#powers = new Uint32Array(text.length + 1);
    let hash = 0;
    let power = 1;
    this.#powers[0] = power;
    for (let at = 0; at < text.length; at += 1) {
      hash = (hash * HASH_BASE + text.charCodeAt(at)) % HASH_PRIME;
      power = (power * HASH_BASE) % HASH_PRIME;
      this.#hashes[at + 1] = hash;
      this.#powers[at + 1] = power;
    }
  }

  /** Whether the first characters of another text stand at a place. */
  hasAt(start: number, other: HashedText, chars: number): boolean {
    return (
      this.#hashOf(start, chars) === other.#hashOf(0, chars) &&
      this.text.slice(start, start + chars) === other.text.slice(0, chars)
    );
  }

  #hashOf(start: number, chars: number): number {
    const before = ((this.#hashes[start] ?? 0) * (this.#powers[chars] ?? 0)) % HASH_PRIME;
    return ((this.#hashes[start + chars] ?? 0) - before + HASH_PRIME) % HASH_PRIME;
  }
}

/** Hashes the block that ends at a character. */
const hashBlock = (text: string, at: number): number =>
  ((text.charCodeAt(at - 1) << 5) ^ text.charCodeAt(at)) & (HASHES - 1);
