/** The text of docs/libraries.md, made from a run of all libraries. */
import { isDeepStrictEqual } from 'node:util';

export interface LibraryResult {
  readonly name: string;
  readonly version: string;
  /** Null: it works. */
  readonly failure: string | null;
}

const FAILURE_MAX_CHARS = 160;

/** @returns why a run is not what Node answers; null if it is */
export function describeRun(outcome: { answer: unknown } | { failure: string }, expected: unknown): string | null {
  if ('failure' in outcome) return outcome.failure.slice(0, FAILURE_MAX_CHARS);
  return isDeepStrictEqual(JSON.parse(JSON.stringify(outcome.answer)), expected)
    ? null
    : `answers ${JSON.stringify(outcome.answer)}, in Node ${JSON.stringify(expected)}`.slice(0, FAILURE_MAX_CHARS);
}

export function librariesPage(results: readonly LibraryResult[]): string {
  const rows = [...results].sort((left, right) => left.name.localeCompare(right.name, 'en'));
  const working = rows.filter(({ failure }) => failure === null).length;
  const toCell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
  return [
    '# Libraries',
    '',
    'Made by `UPDATE_LIBRARIES=1 npm test -- --soak test/libraries/libraries.test.ts`. Each library is the one that npm has, unmodified.',
    '',
    `${working} of ${rows.length} libraries work: bundled, published and run in a jailed child, each gives the answers that it gives in Node. Each run`,
    'also processes words and records named `constructor`, `__proto__` and `hasOwnProperty`. The SDKs of vendors call a server behind a declared host, and are',
    'refused at every other.',
    '',
    'Bundle a library into your package before you publish, for browsers, and keep the comments that name its files:',
    '',
    '```sh',
    'npx esbuild my-library.js --bundle --format=esm --platform=browser --conditions=worker,module --outfile=lib/my-library.js',
    '```',
    '',
    'A library that imports modules of Node works if it can do without them. In these runs they are replaced by empty ones, `os`, `path` and `querystring` by a',
    'few lines each, and `process.env.NODE_ENV`, `process.title` and `process.version` by strings (`alias` and `define` of esbuild); the SDK of Slack also gets the',
    'npm package `buffer` as `globalThis.Buffer`. Modules are strict, so templates that compile to `with` need their strict form: `ejs` with `strict: true`,',
    '`lodash` and `underscore` with `variable`.',
    '',
    'The objects of the language are frozen. Of these libraries two change them while they load, and work all the same: `json5` only in its build for',
    'browsers, so import `json5/dist/index.mjs`; `bluebird` adds a property to `Error`, so give it one of its own with `--inject:own-error.js`:',
    '',
    '```js',
    'const Frozen = globalThis.Error;',
    'const Own = function (...given) {',
    '  return Reflect.construct(Frozen, given, new.target ?? Own);',
    '};',
    'Own.prototype = Frozen.prototype;',
    'Object.setPrototypeOf(Own, Frozen);',
    'export { Own as Error };',
    '```',
    '',
    '| Library | Version | |',
    '|---|---|---|',
    ...rows.map(
      ({ name, version, failure }) => `| \`${name}\` | ${version} | ${failure === null ? 'works' : toCell(failure)} |`,
    ),
    '',
  ].join('\n');
}
