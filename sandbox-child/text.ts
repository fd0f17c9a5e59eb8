/** Converts values that a plugin throws or logs to text. Reading their properties may run the plugin's code. */

/** Longest text of one value, such as a stack, characters. The supervisor truncates messages further. */
export const TEXT_MAX = 16_384;

/** The method with which Node's classes show themselves, by means that plugins do not have. */
export const INSPECT = Symbol.for('nodejs.util.inspect.custom');

/** Stands for a value whose properties throw. */
export const UNPRINTABLE = '[a value that cannot be shown]';

/** Converts a value to text, an error without its causes. Never throws. */
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

/** This program, whose path depends on the jail, and the modules of Node. */
const FOREIGN_FILE = String.raw`(?:\/child\.cjs|\/proc\/self\/fd\/\d+|node:[\w/]+):\d+:\d+`;
/**
 * Stack frames that do not help an author: those of this program and of Node, and of the function in which ses evaluates a bundle. What a
 * plugin evaluates itself is one level deeper (`eval at … (eval at …`), and stays.
 */
const FOREIGN_FRAME = new RegExp(
  String.raw`\n +at (?:[^\n]*?[ (])?(?:${FOREIGN_FILE}|eval at [^\s()]+ \(${FOREIGN_FILE}\), <anonymous>:\d+:\d+)\)?(?=\n|$)`,
  'g',
);
export const removeForeignFrames = (stack: string): string => stack.replace(FOREIGN_FRAME, '');

/** Errors that are shown behind an error: its causes, and those that an AggregateError holds. */
const CAUSES_MAX = 5;

/** Converts an error to data, because JSON would contain none of its properties. `cause` and `errors` may hold it again. */
export function toErrorData(error: Error): Record<string, unknown> {
  return { ...error, name: String(error.name), ...describeOne(error), ...readCauses(error) };
}

/** Returns the message and stack of any thrown value, with the reason that an error has as its cause. */
export function describeError(thrown: unknown): { message: string; stack: string } {
  try {
    if (thrown instanceof Error) {
      const { message, stack } = describeOne(thrown);
      const causes = listCauses(thrown).map((cause) => describeOne(cause));
      const stacks = causes.map((cause) => `\nCaused by: ${cause.stack || cause.message}`);
      // Only an error's: other causes may be whole objects.
      const reason = causes[0]?.stack ? causes[0].message : '';
      return {
        message: message.includes(reason.replace(FROZEN_ADVICE, ''))
          ? message
          : `${message}: ${reason}`.slice(0, TEXT_MAX),
        stack: [stack, ...stacks].join('').slice(0, TEXT_MAX),
      };
    }
  } catch {
    // A hostile error is treated as any other value.
  }
  return describeOne(thrown);
}

/** Describes what the top-level code of a file threw. Only an error has a stack, and so a place. */
export function describeLoadError(thrown: unknown): { message: string; stack: string } {
  const { message, stack } = describeError(thrown);
  if (isError(thrown)) return { message, stack };
  return { message: `threw a value that is not an Error, so its line is unknown: ${message}`, stack };
}

/** `instanceof`, which a proxy may make throw. */
export function isError(value: unknown): boolean {
  try {
    return value instanceof Error;
  } catch {
    return false;
  }
}

/** V8's errors of a change that an object refuses. They do not say that the object is one of the language. */
const REFUSED_CHANGE = /^Cannot (?:(?:add|define|delete|redefine) property|assign to read only property)\b/;
const FROZEN_ADVICE = '. In a plugin, the built-in objects, such as Array.prototype, and host are frozen';

function describeOne(thrown: unknown): { message: string; stack: string } {
  try {
    if (thrown instanceof Error) {
      const message = String(thrown.message).slice(0, TEXT_MAX);
      return {
        message:
          thrown instanceof TypeError && REFUSED_CHANGE.test(message)
            ? `${message}${FROZEN_ADVICE}`
            : message || String(thrown.name),
        stack: removeForeignFrames(String(thrown.stack ?? '').slice(0, TEXT_MAX)),
      };
    }
  } catch {
    // A hostile error is treated as any other value.
  }
  return { message: text(thrown), stack: '' };
}

/** Lists what is behind an error, each value once: errors may be causes of each other. */
function listCauses(error: Error): unknown[] {
  const found = new Set<unknown>([error]);
  // The set grows while it is iterated.
  for (const item of found)
    for (const cause of Object.values(item instanceof Error ? readCauses(item) : {}).flat())
      if (found.size <= CAUSES_MAX) found.add(cause);
  return [...found].slice(1);
}

function readCauses(error: Error): { cause?: unknown; errors?: unknown[] } {
  try {
    const { cause } = error;
    const errors: unknown = error instanceof AggregateError ? error.errors : null;
    return {
      ...(cause === undefined ? {} : { cause }),
      ...(Array.isArray(errors) ? { errors: errors.slice(0, CAUSES_MAX) } : {}),
    };
  } catch {
    // A getter of the plugin may throw.
    return {};
  }
}

/** Freezes a tree of plain data and arrow functions in place. */
export function freeze<T>(value: T): T {
  if ((typeof value === 'object' || typeof value === 'function') && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const field of Object.values(value)) freeze(field);
  }
  return value;
}
