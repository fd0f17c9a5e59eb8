/** The text of docs/plugin-globals.md, made from the tables of a plugin's globals. */
import {
  foreignGlobals,
  globalObjectNames,
  grantedGlobals,
  languageGlobals,
  platformGlobals,
  pluginGlobals,
  withheldGlobals,
} from '../../sdk/contract/realm-globals.ts';
import { escapeCell } from '../site/table-cell.ts';

function printTable(head: string, rows: Readonly<Record<string, string>>): string[] {
  return [
    `| ${head} | |`,
    '|---|---|',
    ...Object.entries(rows).map(([name, text]) => `| \`${name}\` | ${escapeCell(text)} |`),
    '',
  ];
}

const listDocs = (rows: Readonly<Record<string, { readonly doc: string }>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(rows).map(([name, { doc }]) => [name, doc]));

/** The text of the page. */
export function globalsPage(): string {
  return [
    '# Globals of a plugin',
    '',
    'Generated from `sdk/contract/realm-globals.ts` by `npm run -s generate`. The types are in `sdk/globals.d.ts`.',
    '',
    'A plugin runs in a realm of its own. It has the language (ECMA-262 and ECMA-402) and the globals of this page, and nothing else: no',
    'Node, no browser, and no imports except files of the package. A name that is not here does not exist.',
    '',
    '## Bulkhead',
    '',
    ...printTable('Global', listDocs(pluginGlobals)),
    '## The web',
    '',
    ...printTable('Global', { ...platformGlobals, ...globalObjectNames, ...listDocs(grantedGlobals) }),
    '## The language',
    '',
    `${languageGlobals.map((name) => `\`${name}\``).join(', ')}.`,
    '',
    'All methods of these objects in the installed Node are there, except `compile` of `RegExp`. The objects are frozen: a plugin cannot change',
    '`Array.prototype`, but may assign any inherited name on its own objects, except `next` on an iterator of an array or a string. These differ from a',
    'browser or from Node, too:',
    '',
    '- Code is strict. `Function` and indirect `eval` run text in the same realm, as strict code. In your own code, direct `eval(…)`, and `import(…)` of',
    '  anything but a file of the package by its path in quotes, are refused at publish: [the package format](package-format.md#code) says what a library’s code may do.',
    '  At run time, `Function` refuses text with `<!--`, `-->`, `import (` or `eval (`, also within a string, and `eval` all of these but the last. If a',
    '  template has such words, pass them as a value.',
    '  Template engines whose functions contain `with` need their strict form: [libraries](libraries.md) names it.',
    '- A bundle may replace a global: `globalThis.Date = …`, `Object.defineProperty(globalThis, …)` or `Object.assign(globalThis, …)`. In other forms,',
    '  such as `Object.assign(root, { Date })` and `root[name] = …`, only `globalThis.Date` changes, and `Date` stays; `({ Date } = fakes)` throws.',
    '  The members of a global are frozen: instead of `console.debug = …` and `Math.random = …`, write `globalThis.console = { ...console, debug() {} }`.',
    '- Clocks have the resolution of `Date.now()`: one millisecond, in `Temporal.Now` too.',
    '- `RegExp` keeps no last match: `RegExp.$1` and its like do not exist.',
    '- `Error.stackTraceLimit` and `Error.prepareStackTrace` may be assigned and change nothing.',
    '',
    'TypeScript declares `Temporal` from version 6 on: add `esnext.temporal` to `lib`. The console’s editor accepts the name, without',
    'its types. `bulkhead check` and publishing check names, not types.',
    '',
    '## What is absent',
    '',
    ...printTable('Name', { ...withheldGlobals, ...foreignGlobals }),
  ]
    .join('\n')
    .trimEnd()
    .concat('\n');
}
