/** Headers for plugins, as the fetch standard defines them. */

export type HeadersInit =
  | Headers
  | Iterable<readonly [string, string] | Iterable<string>>
  | Readonly<Record<string, string>>;

/** A token of HTTP: the name of a header or a method. */
export const TOKEN = /^[!#$%&'*+.^_`|~\dA-Za-z-]+$/;
const FORBIDDEN_IN_VALUE = /[\0\r\n]|[^\0-\xff]/;
const SPACE = '\t\n\r ';
const SET_COOKIE = 'set-cookie';

/** Makes headers immutable, as those of responses of `fetch` are. */
export let freezeHeaders: (headers: Headers) => void;

export class Headers {
  /** By lower-case name. */
  readonly #values = new Map<string, string[]>();
  #isImmutable = false;

  static {
    freezeHeaders = (headers) => {
      headers.#isImmutable = true;
    };
  }

  constructor(init?: HeadersInit | null) {
    if (init === undefined) return;
    if (typeof init !== 'object' || init === null) throw new TypeError('Headers takes an object or a list of pairs');
    if (Symbol.iterator in init) {
      for (const pair of init as Iterable<Iterable<string>>) {
        const entry = [...pair];
        if (entry.length !== 2) throw new TypeError('a header is a pair: a name and a value');
        this.append(String(entry[0]), String(entry[1]));
      }
    } else for (const name of Object.keys(init)) this.append(name, (init as Record<string, string>)[name] as string);
  }

  append(name: string, value: string): void {
    const key = this.#readName(name);
    const text = readValue(key, value);
    this.#requireMutable();
    const values = this.#values.get(key);
    if (values) values.push(text);
    else this.#values.set(key, [text]);
  }

  delete(name: string): void {
    const key = this.#readName(name);
    this.#requireMutable();
    this.#values.delete(key);
  }

  get(name: string): string | null {
    return this.#values.get(this.#readName(name))?.join(', ') ?? null;
  }

  getSetCookie(): string[] {
    return [...(this.#values.get(SET_COOKIE) ?? [])];
  }

  has(name: string): boolean {
    return this.#values.has(this.#readName(name));
  }

  set(name: string, value: string): void {
    const key = this.#readName(name);
    const text = readValue(key, value);
    this.#requireMutable();
    this.#values.set(key, [text]);
  }

  forEach(callback: (value: string, name: string, headers: Headers) => void, thisArg?: unknown): void {
    if (typeof callback !== 'function') throw new TypeError('forEach takes a function');
    for (const [name, value] of this.#list()) Reflect.apply(callback, thisArg, [value, name, this]);
  }

  *entries(): IterableIterator<[string, string]> {
    yield* this.#list();
  }

  *keys(): IterableIterator<string> {
    for (const [name] of this.#list()) yield name;
  }

  *values(): IterableIterator<string> {
    for (const [, value] of this.#list()) yield value;
  }

  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries();
  }

  /** Sorted by name. Cookies stay apart, because a comma may be part of one. */
  #list(): [string, string][] {
    const names = [...this.#values.keys()].sort();
    return names.flatMap((name): [string, string][] => {
      const values = this.#values.get(name) ?? [];
      return name === SET_COOKIE ? values.map((value) => [name, value]) : [[name, values.join(', ')]];
    });
  }

  #readName(name: string): string {
    const text = String(name);
    if (!TOKEN.test(text)) throw new TypeError(`${JSON.stringify(text.slice(0, 100))} is not the name of a header`);
    return text.toLowerCase();
  }

  #requireMutable(): void {
    if (this.#isImmutable) throw new TypeError('these headers are immutable: copy them with new Headers(headers)');
  }
}

function readValue(name: string, value: string): string {
  const text = trimSpace(String(value));
  if (FORBIDDEN_IN_VALUE.test(text))
    throw new TypeError(`the value of the header ${name} has a character that no header may have`);
  return text;
}

/** No regular expression: V8 needs quadratic time to find the spaces at the end of a text that has many inside. */
function trimSpace(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && SPACE.includes(text.charAt(start))) start += 1;
  while (end > start && SPACE.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}
