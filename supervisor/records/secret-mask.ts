/**
 * Replaces the values of an installation's secrets in what leaves its child: log lines, errors, answers and posted messages. A
 * plugin that logs a key by mistake then logs `[secret apiKey]`. It is no wall against a plugin that hides a value on purpose:
 * secrets with a `use` never reach the child.
 */
import { mapTexts } from '../../db/postgres/storable-json.ts';
import { MASKED_MIN_CHARS } from '../../sdk/contract/limits.ts';
import { createForm, type Form, FormSearch } from './secret-search.ts';

/** Values of one secret that stay masked, the present one included: each takes memory until the installation is forgotten. */
const VALUES_MAX = 8;
/** A secret of several lines, such as a private key, is also masked line by line. Characters. */
const LINE_MIN_CHARS = 16;
/** More than the largest private key has, with 64 characters a line. */
const LINES_MAX = 256;
/** The frame of a PEM file is no secret. */
const PEM_FRAME = /^-----/;
/** Of a secret that is a JSON object, such as a Google service account, these fields are also masked alone. */
const SECRET_FIELD = /key|secret|token|passw|credential/i;
/** Such an object also names public addresses, such as that of the tokens. */
const ADDRESS = /^https?:/i;
/** Values of a JSON object that are looked at. */
const JSON_VALUES_MAX = 256;

/**
 * Each search of a stream takes time for all that is held back. With more characters than this, the next one waits until a quarter
 * more has arrived.
 */
const HELD_OFTEN_CHARS = 1_024;
const HELD_GROWTH = 1.25;

/** Selections that are kept with their searches: a plugin may send requests to several hosts in turn, and each gets other secrets. */
const SELECTED_MAX = 8;

export class SecretMask {
  /** The forms of the last values, by name and value. */
  readonly #values = new Map<string, Map<string, readonly Form[]>>();
  /** By name. */
  readonly #newest = new Map<string, string>();
  #formCount = 0;
  /** The masks that `select` has made, the one that was used last at the end. */
  readonly #selected = new Map<string, SecretMask>();
  /** Null: it is built when a text is masked. */
  #search: FormSearch | null = null;

  /** Whether there is nothing to mask. */
  get isEmpty(): boolean {
    return this.#formCount === 0;
  }

  /** Masks a value from now on. Earlier values of the secret stay masked, because a running child may know them. */
  add(name: string, value: string): void {
    if (this.#newest.get(name) === value) return;
    this.#newest.set(name, value);
    const values = this.#values.get(name) ?? new Map<string, readonly Form[]>();
    this.#values.set(name, values);
    this.#drop(values, value);
    const forms = listForms(name, value);
    values.set(value, forms);
    this.#formCount += forms.length;
    const [oldest] = values.keys();
    if (values.size > VALUES_MAX && oldest !== undefined) this.#drop(values, oldest);
    this.#search = null;
    this.#selected.clear();
  }

  /** A mask of these secrets only, with the values that are masked by now. */
  select(names: readonly string[]): SecretMask {
    const key = names.join();
    const mask = this.#selected.get(key) ?? this.#copy(names);
    this.#selected.delete(key);
    this.#selected.set(key, mask);
    const [oldest] = this.#selected.keys();
    if (this.#selected.size > SELECTED_MAX && oldest !== undefined) this.#selected.delete(oldest);
    return mask;
  }

  #copy(names: readonly string[]): SecretMask {
    const mask = new SecretMask();
    for (const name of names) {
      const values = this.#values.get(name);
      if (values === undefined) continue;
      mask.#values.set(name, new Map(values));
      for (const forms of values.values()) mask.#formCount += forms.length;
    }
    return mask;
  }

  #drop(values: Map<string, readonly Form[]>, value: string): void {
    this.#formCount -= values.get(value)?.length ?? 0;
    values.delete(value);
  }

  /** @param isCut whether the text may end within a value, because it was shortened */
  maskText(text: string, isCut = false): string {
    const search = this.#openSearch();
    if (search === null) return text;
    const masked = search.replace(text);
    return isCut ? search.replaceOpenEnd(masked) : masked;
  }

  /** Masks every text of a JSON value, property names as well. Returns the same value where nothing is found. */
  mask<T>(value: T, isCut = false): T {
    return this.isEmpty ? value : mapTexts(value, (text) => this.maskText(text, isCut));
  }

  /** Masks a text that arrives in pieces. */
  openStream(): MaskedStream {
    return new MaskedStream(() => this.#openSearch());
  }

  /** Whether a text or the bytes of a JSON value hold a secret. */
  isFoundIn(value: unknown): boolean {
    // Invalid UTF-8 beside a secret becomes U+FFFD and takes no byte of it: the first byte of a character is never a continuation.
    if (value instanceof Uint8Array) return this.isFoundIn(Buffer.from(value).toString());
    return this.mask(value) !== value;
  }

  #openSearch(): FormSearch | null {
    if (this.isEmpty) return null;
    this.#search ??= new FormSearch([...this.#values.values()].flatMap((values) => [...values.values()].flat()));
    return this.#search;
  }
}

/**
 * Masks a text that arrives in pieces: what it returns together is what `maskText` makes of the whole. The end of a piece is held
 * back while it may begin a secret.
 */
export class MaskedStream {
  readonly #openSearch: () => FormSearch | null;
  #held = '';
  /** Characters that must be held for the next search. */
  #searchFrom = 0;
  /** Whether a search has failed: the rest of the text is left out, because it may continue a secret. */
  #hasFailed = false;

  /** @param openSearch called for each piece: a plugin may read a secret in the middle of a text */
  constructor(openSearch: () => FormSearch | null) {
    this.#openSearch = openSearch;
  }

  /** @returns what is certain by now */
  push(piece: string): string {
    if (this.#hasFailed) return '';
    const text = this.#held + piece;
    this.#held = text;
    if (text.length < this.#searchFrom) return '';
    const { masked, rest } = this.#openSearch()?.replaceCertain(text) ?? { masked: text, rest: '' };
    this.#hasFailed = rest === null;
    this.#held = rest ?? '';
    this.#searchFrom = this.#held.length > HELD_OFTEN_CHARS ? this.#held.length * HELD_GROWTH : 0;
    return masked;
  }

  /** @returns what was held back, when nothing follows it */
  end(): string {
    const held = this.#held;
    this.#held = '';
    return this.#openSearch()?.replace(held) ?? held;
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

  /** Forgets the values of all other installations. */
  keepOnly(isKept: (installationId: string) => boolean): void {
    for (const installationId of this.#byInstallation.keys())
      if (!isKept(installationId)) this.#byInstallation.delete(installationId);
  }
}
const EMPTY = new SecretMask();

function listForms(name: string, value: string): Form[] {
  const replacement = `[secret ${name}]`;
  const forms = new Map<string, Form>();
  const add = (encode: () => string): void => {
    const whole = encode();
    // If two encodings give the same text, the first is the cheaper one.
    if (whole.length < MASKED_MIN_CHARS || forms.has(whole)) return;
    forms.set(whole, createForm(whole, encode, replacement));
  };
  // HTTP drops blanks at the ends of a header, and so do programs that trim what they are given.
  const given = [...new Set([value, value.trim()])].filter(({ length }) => length >= MASKED_MIN_CHARS);
  for (const text of new Set(given.flatMap((one) => [one, readAsLatin1(one)]))) {
    add(() => text);
    for (const encode of ENCODINGS) add(() => encode(text));
  }
  const lines = listLines(value);
  if (lines.length > 1) for (const line of lines.filter(isSecretLine).slice(0, LINES_MAX)) add(() => line);
  const fieldLines = listSecretFields(value).flatMap(listLines);
  for (const line of fieldLines.filter(isSecretLine).slice(0, LINES_MAX)) add(() => line);
  return [...forms.values()];
}

const listLines = (text: string): string[] => text.split(/\r?\n/).map((line) => line.trim());

/** The texts of a JSON object that a plugin gets when it parses it: the mask of the whole does not find them. */
function listSecretFields(value: string): string[] {
  if (!value.trimStart().startsWith('{')) return [];
  const texts: string[] = [];
  try {
    const found: [string, unknown][] = [['', JSON.parse(value)]];
    // The list grows while it is read.
    for (const [name, part] of found) {
      if (typeof part === 'string' && SECRET_FIELD.test(name) && !ADDRESS.test(part)) texts.push(part);
      if (typeof part !== 'object' || part === null) continue;
      const fields = Object.entries(part).slice(0, JSON_VALUES_MAX - found.length);
      // Items of a list have the name of the list.
      for (const [key, field] of fields) found.push([Array.isArray(part) ? name : key, field]);
    }
  } catch {
    // No JSON.
  }
  return texts;
}

const isSecretLine = (line: string): boolean => line.length >= LINE_MIN_CHARS && !PEM_FRAME.test(line);

const hex = (value: string): string => Buffer.from(value).toString('hex');
const percent = (value: string): string => encodeURIComponent(value.toWellFormed());

const escapeJson = (value: string): string => JSON.stringify(value).slice(1, -1);

/** A body is masked as bytes, in which each byte of the value's UTF-8 is a character. */
const readAsLatin1 = (value: string): string => Buffer.from(value).toString('latin1');

type Escape = (character: string) => string;
const toCodeUnit: Escape = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
const toUpperCodeUnit: Escape = (character) => `\\u${toCodeUnit(character).slice(2).toUpperCase()}`;
const NOT_ASCII = /[^\x20-\x7e]/g;
/** Characters that some writers of JSON escape although they need not. */
const JSON_ESCAPES: readonly ((json: string) => string)[] = [
  // PHP: also /, and all that is not ASCII.
  (json) => json.replaceAll('/', '\\/'),
  (json) => json.replaceAll('/', '\\/').replace(NOT_ASCII, toCodeUnit),
  // Python.
  (json) => json.replace(NOT_ASCII, toCodeUnit),
  // Go and Rails: what ends an element of HTML.
  (json) => json.replace(/[<>&\u2028\u2029]/g, toCodeUnit),
  // .NET.
  (json) => json.replaceAll('\\"', '\\u0022').replace(/[<>&'+`]|[^\x20-\x7e]/g, toUpperCodeUnit),
];

const ENCODINGS: readonly ((value: string) => string)[] = [
  escapeJson,
  ...JSON_ESCAPES.map((escapeMore) => (value: string) => escapeMore(escapeJson(value))),
  // In JSON inside a text of JSON, such as data of a log line that the child has shortened.
  (value) => escapeJson(escapeJson(value)),
  percent,
  (value) => percent(value).replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
  // As a form encodes it, with + for a blank.
  (value) => new URLSearchParams([['', value]]).toString().slice(1),
  hex,
  (value) => hex(value).toUpperCase(),
  ...(['base64', 'base64url'] as const).flatMap((encoding) => [
    (value: string) =>
      Buffer.from(value)
        .toString(encoding)
        .replace(/={1,2}$/, ''),
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
