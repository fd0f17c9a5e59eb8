/** Groups the cases of Test262 that pass in plain Node and not in a plugin, by why. */

interface Reason {
  readonly name: string;
  readonly explanation: string;
}
interface FoundReason extends Reason {
  /** Matches the path and the error of a case. */
  readonly pattern: RegExp;
}

/** Found by running the case in plain Node whose intrinsics are frozen, where it fails as well. */
export const CHECKS = 'checks for unfrozen properties';
export const CHANGES = 'changed intrinsics';
const measured: readonly Reason[] = [
  {
    name: CHECKS,
    explanation:
      'The case checks that a property of the language is writable and configurable. Everything else that it checks is as expected.',
  },
  {
    name: CHANGES,
    explanation:
      'The case changes an object of the language, or asks whether it could, such as `Array.prototype[0] = 1`.',
  },
];

/** The error of the engine about a change. */
const CHANGE_REFUSED = /read only property|not extensible|Cannot (redefine|delete)/;
/** Checks whether a change would be possible. */
const CHANGE_CHECK =
  /[eE]xtensib|have configurable|(isFrozen|isSealed|isExtensible)\/15|15\.2\.3\.(3-4-214|7-6-a-1)|\/prop-desc\.js/;

/** The first that fits. */
const found: readonly FoundReason[] = [
  {
    name: 'legacy RegExp',
    explanation: '`compile`, which changes a regular expression, does not exist.',
    pattern: /RegExp\/prototype\/compile\//,
  },
  {
    name: 'code made of text',
    explanation:
      '`Function` and `eval` accept strict code without HTML comments. Declarations in a text of `eval` do not become globals, and `this` of a `Function` is the global object.',
    pattern:
      /Duplicate parameter name|in strict mode|SES_(EVAL|HTML_COMMENT|IMPORT)_REJECTED|^built-ins\/Function\/|^\S*(indirect|eval|createdynfn)|10\.4\.3-1-65-s/,
  },
];

export const reasons: readonly Reason[] = [...measured, ...found];
export const UNEXPLAINED = 'not explained';

/** @returns the name of the reason */
export function findReason(path: string, error: string): string {
  return found.find(({ pattern }) => pattern.test(`${path}: ${error}`))?.name ?? UNEXPLAINED;
}

/** @returns the name of the reason of a case that also fails in plain Node whose intrinsics are frozen */
export function findChange(path: string, error: string): string {
  if (CHANGE_REFUSED.test(error)) return CHANGES;
  const reason = findReason(path, error);
  return reason === UNEXPLAINED && CHANGE_CHECK.test(`${path}: ${error}`) ? CHANGES : reason;
}
