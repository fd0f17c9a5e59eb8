/** Words for values that a plugin throws or logs. They are the plugin's: every look at them may run its code. */

/** Longest text kept of one value; the supervisor truncates further. Characters. */
const TEXT_MAX = 16_384;

/** One value as text, and never an exception. */
export function text(value: unknown): string {
  try {
    if (typeof value === 'string') return value;
    if (value instanceof Error) return ownFrames(String(value.stack || value).slice(0, TEXT_MAX));
    if (typeof value === 'object' && value !== null) return (JSON.stringify(value) ?? '').slice(0, TEXT_MAX);
    return String(value).slice(0, TEXT_MAX);
  } catch {
    return '[a value that cannot be shown]';
  }
}

/** Frames of this program and of Node say nothing to an author. */
const FOREIGN_FRAME = /\n +at (?:[^\n]*?[ (])?(?:\/child\.cjs|node:[\w/]+):\d+:\d+\)?(?=\n|$)/g;
const ownFrames = (stack: string): string => stack.replace(FOREIGN_FRAME, '');

/** An error as data that is kept as JSON, which would hold none of it. */
export function errorData(error: Error): Record<string, unknown> {
  const { message, stack } = explain(error);
  return { ...error, name: String(error.name), message, stack };
}

/** The message and stack of anything thrown. */
export function explain(thrown: unknown): { message: string; stack: string } {
  try {
    if (thrown instanceof Error) {
      const message = String(thrown.message).slice(0, TEXT_MAX);
      return {
        message: message || String(thrown.name),
        stack: ownFrames(String(thrown.stack ?? '').slice(0, TEXT_MAX)),
      };
    }
  } catch {
    // A hostile error: as any other value.
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
