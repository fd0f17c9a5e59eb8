/** The text of docs/plugin-globals.md, made from the types that authors compile with and the hints about absent globals. */
import { absentGlobals } from '../../api/package/load-hints.ts';
import { printGlobals } from '../../sdk/generate/globals.ts';

const DECLARATION = /((?:^ ?\*.*\n|^\/\*\*.*\n)*)^declare (class|function|const|let|var) (\w+)/gm;

interface Declared {
  readonly name: string;
  readonly kind: string;
  readonly doc: string;
}

function listDeclared(): Declared[] {
  const found = printGlobals().matchAll(DECLARATION);
  const byName = new Map<string, Declared>();
  for (const [, comment = '', kind = '', name = ''] of found) {
    const doc = comment
      .replaceAll(/^ ?\/?\*+\/?|\*\/$/gm, '')
      .replaceAll(/\s+/g, ' ')
      .trim();
    byName.set(name, { name, kind: kind === 'const' ? 'object' : kind, doc });
  }
  return [...byName.values()];
}

const escapeCell = (text: string): string => text.replaceAll('|', '\\|');

/** The text of the page. */
export function globalsPage(): string {
  return [
    '# Globals of a plugin',
    '',
    'Generated from `sdk/generate/` and `api/package/load-hints.ts` by `npm run -s generate`. The types are in `sdk/globals.d.ts`.',
    '',
    'A plugin runs in a realm of its own. It has the language (ECMA-262) and the globals of this page, and nothing else: no imports, no Node, no',
    'browser. A name that is not here does not exist.',
    '',
    '| Global | | |',
    '|---|---|---|',
    ...listDeclared().map(({ name, kind, doc }) => `| \`${name}\` | ${kind} | ${escapeCell(doc)} |`),
    '',
    '## What is absent',
    '',
    '| Name | In a plugin |',
    '|---|---|',
    ...Object.entries(absentGlobals).map(([name, hint]) => `| \`${name}\` | ${escapeCell(hint)} |`),
    '| `import()`, `eval` of new code, WebAssembly, SharedArrayBuffer, Atomics | they would run or share what was not reviewed at publish |',
    '',
  ].join('\n');
}
