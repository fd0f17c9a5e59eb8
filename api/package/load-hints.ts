/** Suggests fixes when code fails to load because it uses a global that plugins do not have, or `host` before a handler runs. */
import {
  absentGlobals,
  globalNames,
  grantedGlobals,
  platformGlobals,
  pluginGlobals,
} from '../../sdk/contract/realm-globals.ts';
import { findNearName } from '../../service/text/near-name.ts';

/** Globals worth suggesting, without those of the language itself. */
const GLOBALS = Object.keys({ ...pluginGlobals, ...platformGlobals });
/** The names that the realm declares. @param hasFetch whether the package declares hosts */
export const listRealmGlobals = (hasFetch: boolean): ReadonlySet<string> =>
  new Set([...globalNames, ...(hasFetch ? Object.keys(grantedGlobals) : [])]);

/** Length of the code excerpt around the error, because a bundle may be one line of megabytes. Characters. */
const LOOK_CHARS = 200;

interface BuiltBundle {
  readonly text: string;
  /** Name the globals that libraries use and plugins lack. */
  readonly warnings: readonly string[];
}

/**
 * Returns the text of a load error with a suggestion, if there is one.
 *
 * @param at position of the error in the bundle, line from 1, column from 0; null: unknown
 */
export function explainLoadError(
  message: string,
  bundle: BuiltBundle,
  at: { line: number; column: number } | null,
): string {
  const code = at === null ? '' : around(bundle.text, at);
  return explainRequire(message, code) ?? `${message}${suggestFix(message, bundle, code)}`;
}

/** V8 names the expression that the bundler writes for `require`, which the author does not find in the file. */
function explainRequire(message: string, code: string): string | null {
  if (!/^\(0 , globalThis\.require\) is not a function/.test(message)) return null;
  const required = new Set(
    [...code.matchAll(/globalThis\.require\)\(["']([^"'\n]{1,200})["']\)/g)].map((match) => match[1]),
  );
  const [name] = required.size === 1 ? required : [];
  const what = name === undefined ? 'what the library requires' : `“${name}”`;
  return `require is not a function. Plugins have no require: bundle ${what} into this file, too, as esbuild does with --bundle`;
}

function suggestFix(message: string, bundle: BuiltBundle, code: string): string {
  const hostMember = readHostMember(message, code);
  if (hostMember !== null) return `. ${explainHostMember(hostMember)}`;
  const name = readSubject(message, code);
  if (name === null || !isMissing(name, message, bundle)) return '';
  if (Object.hasOwn(absentGlobals, name)) return `. Plugins have no ${name}: ${absentGlobals[name]}`;
  if (GLOBALS.includes(name)) return '';
  const near = findNearName(name, GLOBALS);
  return near === null ? '' : `. “${name}” does not exist; did you mean “${near}”?`;
}

/** A declared name may have the value undefined. So have globals of Node that plugins lack, but those the bundler warns of. */
const isMissing = (name: string, message: string, { warnings }: BuiltBundle): boolean =>
  message === `${name} is not defined` || warnings.some((warning) => warning.includes(` ${name} (line `));

function around(bundle: string, { line, column }: { line: number; column: number }): string {
  let start = 0;
  for (let left = line - 1; left > 0; left -= 1) {
    start = bundle.indexOf('\n', start) + 1;
    if (start === 0) return '';
  }
  const end = bundle.indexOf('\n', start);
  const from = Math.max(start, start + column - LOOK_CHARS);
  return bundle.slice(from, Math.min(end < 0 ? bundle.length : end, start + column + LOOK_CHARS));
}

/** The member of `host` that an error says is undefined, such as `host.storage` or `host.settings.words`. */
function readHostMember(message: string, code: string): string | null {
  const property = readProperty(message);
  return property === null ? null : findOwner('host(?:\\.[\\w$]{1,60}){1,2}', property, code);
}

/** Why a member of `host` is undefined while the package is checked. */
function explainHostMember(member: string): string {
  const reason = member.startsWith('host.settings.')
    ? 'settings are empty while a package is checked'
    : 'nothing is granted while a package is checked';
  return `${member} is undefined because ${reason}. Use it in a handler, not while the code loads`;
}

/** Returns the variable that an error is about. V8 names it if it was called, but not if a property was read. */
function readSubject(message: string, code: string): string | null {
  const called =
    /^(?:\(intermediate value\)\.)?([A-Za-z_$][\w$]{0,60}) is not (?:a function|a constructor|defined)/.exec(message);
  if (called) return called[1] ?? null;
  const property = readProperty(message);
  return property === null ? null : findOwner('[A-Za-z_$][\\w$]{0,60}', property, code);
}

/** The property that an error says was read or set on undefined. */
const readProperty = (message: string): string | null =>
  /^Cannot (?:set|read) properties of undefined \((?:setting|reading) '([\w$]{1,60})'\)/.exec(message)?.[1] ?? null;

/** The first text of a pattern that is followed by the property. */
function findOwner(pattern: string, property: string, code: string): string | null {
  const escaped = property.replaceAll('$', '\\$');
  return new RegExp(`(?<![\\w$.])(${pattern})\\.${escaped}(?![\\w$])`).exec(code)?.[1] ?? null;
}
