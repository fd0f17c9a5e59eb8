/** Reads the files of Test262, the conformance suite of ECMAScript, and chooses those that plugin code can be held to. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

/** Folders whose files are cases. */
const FOLDERS = ['annexB', 'built-ins', 'intl402', 'language'];

export interface SuiteFile {
  /** Relative to the folder `test` of the suite. */
  readonly path: string;
  /** Files of the suite's `harness` that it needs. */
  readonly includes: readonly string[];
  readonly isAsync: boolean;
  /** The error that it must end with. */
  readonly negative: { readonly phase: string; readonly type: string } | null;
  /** Why plugins are not held to it; null: they are. */
  readonly excluded: string | null;
}
interface Frontmatter {
  readonly flags?: readonly string[];
  readonly includes?: readonly string[];
  readonly negative?: { readonly phase: string; readonly type: string };
}

/** Lists all cases. @param suite the folder of a checkout */
export function listSuiteFiles(suite: string): SuiteFile[] {
  const root = join(suite, 'test');
  return globSync(
    FOLDERS.map((folder) => `${folder}/**/*.js`),
    { cwd: root },
  )
    .filter((path) => !path.includes('_FIXTURE'))
    .sort()
    .map((path) => readSuiteFile(path, readFileSync(join(root, path), 'utf8')));
}

function readSuiteFile(path: string, source: string): SuiteFile {
  const [comment = '', text = ''] = /\/\*---([\s\S]*?)---\*\//.exec(source) ?? [];
  const { flags = [], includes = [], negative = null } = (parse(text.replace(/\r\n?/g, '\n')) ?? {}) as Frontmatter;
  return {
    path,
    includes,
    isAsync: flags.includes('async'),
    negative,
    excluded: findExclusion(flags, source.replace(comment, '')),
  };
}

/** Files that need what no plugin has by design, or what the bundler decides before the realm sees it. */
function findExclusion(flags: readonly string[], code: string): string | null {
  if (flags.includes('noStrict')) return 'sloppy code';
  if (flags.includes('module')) return 'modules, which the bundler resolves';
  if (flags.includes('raw')) return 'source text that must not be changed';
  if (/\b(SharedArrayBuffer|Atomics)\b/.test(code)) return 'shared memory';
  if (/\$262\.(?!detachArrayBuffer\b)/.test(code)) return 'functions of a test host, such as other realms';
  if (/\bimport\s*[(.]/.test(code)) return 'import()';
  return /\beval\s*\(/.test(code) ? 'direct eval' : null;
}

/**
 * Adapts the suite's own checks of properties to frozen objects: a property is neither writable nor configurable.
 */
const FROZEN_AS_EXPECTED = `
{
  const verify = verifyProperty;
  verifyProperty = (object, name, expected, options) => {
    if (!Object.isFrozen(object) || typeof expected !== 'object') return verify(object, name, expected, options);
    const asked = { ...expected };
    for (const key of ['writable', 'configurable']) if (asked[key] === true) delete asked[key];
    if ('value' in asked) {
      assert.sameValue(object[name], asked.value);
      delete asked.value;
    }
    return verify(object, name, asked, options);
  };
  const unlessFrozen = (check) => (object, ...values) => Object.isFrozen(object) || check(object, ...values);
  verifyWritable = unlessFrozen(verifyWritable);
  verifyConfigurable = unlessFrozen(verifyConfigurable);
  verifyNotWritable = unlessFrozen(verifyNotWritable);
  verifyEqualTo = (object, name, value) => assert.sameValue(object[name], value);
  verifyPrimordialProperty = verifyProperty;
}`;

/**
 * The code of a case with its harness, as the body of one function.
 *
 * @param suite the folder of a checkout
 * @param acceptsFrozen whether the checks of properties expect that intrinsics are frozen
 */
export function readCase(suite: string, { path, includes, isAsync }: SuiteFile, acceptsFrozen = false): string {
  const names = ['assert.js', 'sta.js', ...(isAsync ? ['doneprintHandle.js'] : []), ...includes];
  return [
    ...names.map((name) => readHarness(suite, name)),
    // The helper of asynchronous cases looks for it there.
    isAsync ? 'globalThis.$DONE = $DONE;' : '',
    acceptsFrozen && includes.includes('propertyHelper.js') ? FROZEN_AS_EXPECTED : '',
    readFileSync(join(suite, 'test', path), 'utf8'),
  ].join('\n');
}

/** The one place where the harness assigns an inherited name, which plain frozen objects do not allow. */
const OVERRIDE = /Test262Error\.prototype\.toString = (function \(\) \{[^}]*\});/;

const harness = new Map<string, string>();
function readHarness(suite: string, name: string): string {
  const text =
    harness.get(name) ??
    readFileSync(join(suite, 'harness', name), 'utf8').replace(
      OVERRIDE,
      'Object.defineProperty(Test262Error.prototype, "toString", { value: $1, writable: true, configurable: true });',
    );
  harness.set(name, text);
  return text;
}
