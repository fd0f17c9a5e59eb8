/** DOMException for plugins, whose names tell libraries why an operation ended. Node's own would give access to more of Node. */

/** The numbers that the names had before there were names. Libraries still compare them. */
const CODES = Object.freeze({
  IndexSizeError: 1,
  HierarchyRequestError: 3,
  WrongDocumentError: 4,
  InvalidCharacterError: 5,
  NoModificationAllowedError: 7,
  NotFoundError: 8,
  NotSupportedError: 9,
  InUseAttributeError: 10,
  InvalidStateError: 11,
  SyntaxError: 12,
  InvalidModificationError: 13,
  NamespaceError: 14,
  InvalidAccessError: 15,
  TypeMismatchError: 17,
  SecurityError: 18,
  NetworkError: 19,
  AbortError: 20,
  URLMismatchError: 21,
  QuotaExceededError: 22,
  TimeoutError: 23,
  InvalidNodeTypeError: 24,
  DataCloneError: 25,
});

export class DOMException extends Error {
  readonly #name: string;

  constructor(message = '', options: string | { readonly name?: string; readonly cause?: unknown } = {}) {
    const { name = 'Error', cause } = typeof options === 'string' ? { name: options } : options;
    super(String(message), cause === undefined ? undefined : { cause });
    this.#name = String(name);
    // The engine wrote the class's name in front of the stack while the name was not set yet.
    const { stack } = this;
    const value = typeof stack === 'string' ? stack.replace(/^[^\n:]*/, this.#name) : stack;
    Object.defineProperty(this, 'stack', { value, writable: true, configurable: true });
  }

  override get name(): string {
    // Absent while the engine builds the stack.
    return #name in this ? this.#name : 'Error';
  }

  get code(): number {
    return Object.hasOwn(CODES, this.name) ? CODES[this.name as keyof typeof CODES] : 0;
  }
}

/** `AbortError` gives `ABORT_ERR`. */
const constantOf = (name: string): string =>
  `${name
    .replace(/Error$/, '')
    .replace(/(?<=[a-z])(?=[A-Z])/g, '_')
    .toUpperCase()}_ERR`;
for (const [name, value] of Object.entries(CODES))
  for (const owner of [DOMException, DOMException.prototype])
    Object.defineProperty(owner, constantOf(name), { value, enumerable: true });

/** Runs one of Node's functions and replaces Node's DOMException, whose class plugins must not get. */
export function replaceNodeExceptions<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof globalThis.DOMException) throw new DOMException(error.message, error.name);
    throw error;
  }
}
