/** esbuild's own warnings about code, all switched off: an author does not see them, and each has the whole line of its place. */
import type { BuildOptions } from 'esbuild';

/** The ids of the warnings that esbuild 0.28 can have about a code file. It does not use them for errors. */
const WARNINGS = [
  'assert-to-with',
  'assert-type-json',
  'assign-to-constant',
  'assign-to-define',
  'assign-to-import',
  'bigint',
  'call-import-namespace',
  'class-name-will-throw',
  'commonjs-variable-in-esm',
  'confusing-typescript-cast',
  'delete-super-property',
  'direct-eval',
  'duplicate-case',
  'duplicate-class-member',
  'duplicate-object-key',
  'empty-import-meta',
  'equals-nan',
  'equals-negative-zero',
  'equals-new-object',
  'html-comment-in-js',
  'impossible-typeof',
  'import-is-undefined',
  'indirect-require',
  'invalid-source-mappings',
  'missing-source-map',
  'private-name-will-throw',
  'semicolon-after-return',
  'suspicious-boolean-not',
  'suspicious-logical-operator',
  'suspicious-nullish-coalescing',
  'this-is-undefined-in-esm',
  'unsupported-dynamic-import',
  'unsupported-jsx-comment',
  'unsupported-regexp',
  'unsupported-require-call',
  'unsupported-source-map-comment',
] as const;

/**
 * Options without warnings. Of code in one line, as minified libraries are, 10,000 warnings would have 10,000 copies of the line, which
 * fill esbuild's memory. `logLevel` and `logLimit` only bound what esbuild prints.
 */
export const withoutWarnings = {
  logLevel: 'silent',
  logOverride: Object.fromEntries(WARNINGS.map((id) => [id, 'silent'])),
} as const satisfies BuildOptions;
