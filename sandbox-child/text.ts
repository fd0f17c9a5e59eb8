/** Converts values that a plugin throws or logs to text. Reading their properties may run the plugin's code. */

/** Longest text of one value, characters. The supervisor truncates further. */
const TEXT_MAX = 16_384;

/** The method with which Node's classes show themselves, by means that plugins do not have. */
export const INSPECT = Symbol.for('nodejs.util.inspect.custom');

/** Stands for a value whose properties throw. */
export const UNPRINTABLE = '[a value that cannot be shown]';

/** Converts a value to text. Never throws. */
export function text(value: unknown): string {
  try {
    if (typeof value === 'string') return value;
    if (value instanceof Error) return removeForeignFrames(String(value.stack || value).slice(0, TEXT_MAX));
    if (typeof value === 'object' && value !== null) return (JSON.stringify(value) ?? '').slice(0, TEXT_MAX);
    return String(value).slice(0, TEXT_MAX);
  } catch {
    return UNPRINTABLE;
  }
}

/** Stack frames of this program and of Node, which do not help an author. */
const FOREIGN_FRAME = /\n +at (?:[^\n]*?[ (])?(?:\/child\.cjs|node:[\w/]+):\d+:\d+\)?(?=\n|$)/g;
export const removeForeignFrames = (stack: string): string => stack.replace(FOREIGN_FRAME, '');

/** Converts an error to data, because JSON would contain none of its properties. */
export function toErrorData(error: Error): Record<string, unknown> {
  const { message, stack } = describeError(error);
  return { ...error, name: String(error.name), message, stack };
}

/** Returns the message and stack of any thrown value. */
export function describeError(thrown: unknown): { message: string; stack: string } {
  try {
    if (thrown instanceof Error) {
      const message = String(thrown.message).slice(0, TEXT_MAX);
      return {
        message: message || String(thrown.name),
        stack: removeForeignFrames(String(thrown.stack ?? '').slice(0, TEXT_MAX)),
      };
    }
  } catch {
    // A hostile error is treated as any other value.
  }
  return { message: text(thrown), stack: '' };
}

/** Freezes a tree of plain data and arrow functions in place. */
export function freeze<T>(value: T): T {
  if ((typeof value === 'object' || typeof value === 'function') && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const field of Object.values(value)) freeze(field);
  }
  return value;
}
