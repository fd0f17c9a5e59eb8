/** FormData for plugins, and how it becomes the body of a request and back. */
import { Blob, bytesOf, File, joinBytes } from './blob.ts';

type FormValue = string | File;

export class FormData {
  #entries: [string, FormValue][] = [];

  constructor(form?: undefined) {
    if (form !== undefined) throw new TypeError('FormData takes nothing: a plugin has no forms');
  }

  append(name: string, value: string | Blob, filename?: string): void {
    this.#entries.push([toText(name), readValue(value, filename)]);
  }

  delete(name: string): void {
    const text = toText(name);
    this.#entries = this.#entries.filter(([key]) => key !== text);
  }

  get(name: string): FormValue | null {
    const text = toText(name);
    return this.#entries.find(([key]) => key === text)?.[1] ?? null;
  }

  getAll(name: string): FormValue[] {
    const text = toText(name);
    return this.#entries.filter(([key]) => key === text).map(([, value]) => value);
  }

  has(name: string): boolean {
    const text = toText(name);
    return this.#entries.some(([key]) => key === text);
  }

  /** Replaces the first entry of the name and removes the others. */
  set(name: string, value: string | Blob, filename?: string): void {
    const text = toText(name);
    const entry: [string, FormValue] = [text, readValue(value, filename)];
    const at = this.#entries.findIndex(([key]) => key === text);
    if (at < 0) this.#entries.push(entry);
    else
      this.#entries = this.#entries.flatMap((other, index) =>
        index === at ? [entry] : other[0] === text ? [] : [other],
      );
  }

  forEach(callback: (value: FormValue, name: string, form: FormData) => void, thisArg?: unknown): void {
    for (const [name, value] of this.#entries) Reflect.apply(callback, thisArg, [value, name, this]);
  }

  *entries(): IterableIterator<[string, FormValue]> {
    for (const [name, value] of this.#entries) yield [name, value];
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.#entries) yield name;
  }
  *values(): IterableIterator<FormValue> {
    for (const [, value] of this.#entries) yield value;
  }
  [Symbol.iterator](): IterableIterator<[string, FormValue]> {
    return this.entries();
  }
}

const toText = (value: unknown): string => String(value).toWellFormed();

function readValue(value: string | Blob, filename: string | undefined): FormValue {
  if (!(value instanceof Blob)) return toText(value);
  if (value instanceof File && filename === undefined) return value;
  const name = filename === undefined ? 'blob' : toText(filename);
  const lastModified = value instanceof File ? value.lastModified : Date.now();
  return new File([value], name, { type: value.type, lastModified });
}

const escapeName = (name: string): string =>
  name.replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('"', '%22');
const toCrlf = (text: string): string => text.replaceAll(/\r\n?|\n/g, '\r\n');

export function encodeMultipart(form: FormData): { bytes: Uint8Array<ArrayBuffer>; type: string } {
  const boundary = `----FormBoundary${crypto.randomUUID().replaceAll('-', '')}`;
  const encoder = new TextEncoder();
  const parts: Uint8Array[] = [];
  for (const [name, value] of form) {
    const label = `--${boundary}\r\nContent-Disposition: form-data; name="${escapeName(toCrlf(name))}"`;
    if (typeof value === 'string') parts.push(encoder.encode(`${label}\r\n\r\n${toCrlf(value)}\r\n`));
    else {
      const type = value.type || 'application/octet-stream';
      parts.push(encoder.encode(`${label}; filename="${escapeName(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`));
      parts.push(bytesOf(value), encoder.encode('\r\n'));
    }
  }
  parts.push(encoder.encode(`--${boundary}--\r\n`));
  return { bytes: joinBytes(parts), type: `multipart/form-data; boundary=${boundary}` };
}

/** Decodes a body of one of the two types of forms. @throws TypeError for any other type, or a malformed body */
export function decodeForm(bytes: Uint8Array, type: string): FormData {
  const form = new FormData();
  if (/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type)) {
    for (const [name, value] of new URLSearchParams(decodeUtf8(bytes))) form.append(name, value);
    return form;
  }
  const boundary = /^multipart\/form-data\s*;.*?boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(type);
  if (!boundary) throw new TypeError(`a body of the type ${type.slice(0, 100) || 'none'} is not a form`);
  for (const part of splitParts(bytes, boundary[1] ?? boundary[2] ?? '')) addPart(form, part);
  return form;
}

/** One character a byte, so that the parts keep their bytes. */
const toLatin = (bytes: Uint8Array): string => {
  let text = '';
  for (let at = 0; at < bytes.byteLength; at += 8_192) text += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return text;
};
const fromLatin = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(text, (char) => char.charCodeAt(0));
const fromUtf8 = (latin: string): string => decodeUtf8(fromLatin(latin));
/** A byte order mark is a part of the text. */
const decodeUtf8 = (bytes: Uint8Array): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);

function splitParts(bytes: Uint8Array, boundary: string): string[] {
  const [, ...rest] = `\r\n${toLatin(bytes)}`.split(`\r\n--${boundary}`);
  const end = rest.findIndex((part) => part.startsWith('--'));
  if (end < 0) throw new TypeError('the multipart body has no end');
  return rest.slice(0, end);
}

/** A parameter of the header of a part, quoted or as a token. Other quoted texts are matched to be skipped. */
const PARAMETER = /"[^"]*"|;\s*([^\s=;"]+)=(?:"([^"]*)"|([^\s;"]+))/g;

/** Reads them in order, because a quoted value may contain what looks like a parameter. */
function readParameters(headers: string): ReadonlyMap<string, string> {
  const line = /^content-disposition:(.*)/im.exec(headers)?.[1] ?? '';
  const parameters = new Map<string, string>();
  for (const [, name, quoted, token = ''] of line.matchAll(PARAMETER)) {
    const key = name?.toLowerCase();
    if (key !== undefined && !parameters.has(key)) parameters.set(key, quoted ?? token);
  }
  return parameters;
}

function addPart(form: FormData, part: string): void {
  const middle = part.indexOf('\r\n\r\n');
  const headers = part.slice(0, middle);
  const parameters = readParameters(headers);
  const name = parameters.get('name');
  if (middle < 0 || name === undefined) throw new TypeError('a part of the multipart body has no name');
  const filename = parameters.get('filename');
  const content = part.slice(middle + 4);
  if (filename === undefined) {
    form.append(unescapeName(name), fromUtf8(content));
    return;
  }
  const type = /^content-type:\s*(\S.*)/im.exec(headers)?.[1]?.trimEnd() ?? 'text/plain';
  form.append(unescapeName(name), new File([fromLatin(content)], unescapeName(filename), { type }));
}

const unescapeName = (latin: string): string =>
  fromUtf8(latin).replaceAll(/%0A/gi, '\n').replaceAll(/%0D/gi, '\r').replaceAll(/%22/g, '"');
