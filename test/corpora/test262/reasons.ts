/** Groups the cases of Test262 that pass in plain Node and not in a plugin, by why. */

interface Reason {
  readonly name: string;
  readonly explanation: string;
  /** Of the path and the error of a case. */
  readonly pattern: RegExp;
}

/** The first that fits. */
export const reasons: readonly Reason[] = [
  {
    name: 'frozen intrinsics',
    explanation:
      'The case changes an object of the language, or asks whether it could, such as `Array.prototype[0] = 1`.',
    pattern:
      /read only property|not extensible|Cannot redefine property|Cannot delete property|[eE]xtensib|(be|descriptor should be) (writable|configurable)|have configurable|isFrozen|isSealed|isExtensible\/15|getOwnPropertyDescriptors?\/|definePropert(y|ies)\/15|prop-desc\.js|^\S*\/(prop-desc|name|length)\.js/,
  },
  {
    name: 'legacy functions',
    explanation: '`caller` and `arguments` of functions do not exist, also not as accessors that throw.',
    pattern: /restricted-properties|15\.3\.5\.4_2|function\/13\.2-/,
  },
  {
    name: 'code made of text',
    explanation:
      '`Function` and `eval` take strict code of plain functions: no sloppy code, no constructors of generators and asynchronous functions. `this` of a `Function` is the global object.',
    pattern:
      /is not a valid constructor|Duplicate parameter name|in strict mode|SES_(EVAL|HTML_COMMENT|IMPORT)_REJECTED|^built-ins\/(Async)?(Generator)?Function\/|^\S*(indirect|eval|createdynfn)|10\.4\.3-1-65-s/,
  },
  {
    name: 'legacy RegExp',
    explanation:
      'Statics such as `RegExp.$1`, and what shares them: `compile`, and `RegExp` as the constructor of its instances’ prototype.',
    pattern: /RegExp/,
  },
];

export const UNEXPLAINED = 'not explained';

/** @returns the name of the reason */
export function findReason(path: string, error: string): string {
  return reasons.find(({ pattern }) => pattern.test(`${path}: ${error}`))?.name ?? UNEXPLAINED;
}
