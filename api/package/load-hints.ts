/** Suggests fixes when code fails to load because it uses a global that plugins do not have. */
import { closest, distance } from 'fastest-levenshtein';
import {
  absentGlobals,
  globalNames,
  grantedGlobals,
  platformGlobals,
  pluginGlobals,
} from '../../sdk/contract/realm-globals.ts';

/** Globals worth suggesting, without those of the language itself. */
const GLOBALS = Object.keys({ ...pluginGlobals, ...platformGlobals });
const GROUPS = Object.keys(pluginGlobals).filter((name) => name !== 'host');
/** The names that the realm declares. @param hasFetch whether the package declares hosts */
export const listRealmGlobals = (hasFetch: boolean): ReadonlySet<string> =>
  new Set([...globalNames, ...(hasFetch ? Object.keys(grantedGlobals) : [])]);

const EDITS_MAX = 3;
/** Length of the code excerpt around the error, because a bundle may be one line of megabytes. Characters. */
const LOOK_CHARS = 200;

/**
 * Returns a sentence to append to a load error; empty without a suggestion.
 *
 * @param at position of the error in the bundle, line from 1, column from 0; null: unknown
 */
export function suggestFix(message: string, bundle: string, at: { line: number; column: number } | null): string {
  const name = missingName(message, at === null ? '' : around(bundle, at));
  const isUnknownGroup = /^Cannot set properties of undefined/.test(message);
  const list = isUnknownGroup ? `. There are ${GROUPS.slice(0, -1).join(', ')} and channel` : '';
  if (name === null) return list;
  if (Object.hasOwn(absentGlobals, name)) return `. Plugins have no ${name}: ${absentGlobals[name]}`;
  if (GLOBALS.includes(name)) return list;
  const near = closest(name, GLOBALS);
  return distance(name, near) <= EDITS_MAX ? `${list}. “${name}” does not exist; did you mean “${near}”?` : list;
}

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

/** V8 names the missing property, but the missing variable only if it was called. */
function missingName(message: string, code: string): string | null {
  const called =
    /^(?:\(intermediate value\)\.)?([A-Za-z_$][\w$]{0,60}) is not (?:a function|a constructor|defined)/.exec(message);
  if (called) return called[1] ?? null;
  const property = /^Cannot (?:set|read) properties of undefined \((?:setting|reading) '([\w$]{1,60})'\)/.exec(
    message,
  )?.[1];
  if (property === undefined) return null;
  const escaped = property.replaceAll('$', '\\$');
  return new RegExp(`(?<![\\w$.])([A-Za-z_$][\\w$]{0,60})\\.${escaped}(?![\\w$])`).exec(code)?.[1] ?? null;
}
