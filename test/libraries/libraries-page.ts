/** Builds docs/libraries.md from the results of a run of all libraries. */
import { isDeepStrictEqual } from 'node:util';

export interface LibraryResult {
  readonly name: string;
  readonly version: string;
  /** Null: the library works. */
  readonly failure: string | null;
}

const FAILURE_MAX_CHARS = 160;

/** @returns how the result of a run differs from the result in Node. Null: it does not */
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
    '`UPDATE_LIBRARIES=1 npm test -- --soak test/libraries/libraries.test.ts` writes this page. Each library is the unmodified package from npm.',
    '',
    `${working} of ${rows.length} libraries work: bundled, published and run in a jailed child, each returns the same results as in Node. Each run`,
    'also processes words and records named `constructor`, `__proto__` and `hasOwnProperty`. The SDKs of vendors call a server at a declared host, and their',
    'calls to every other host are refused.',
    '',
    'Before you publish, bundle the library into your package for browsers, and keep the comments that name its files:',
    '',
    '```sh',
    'npx esbuild my-library.js --bundle --format=esm --platform=browser --conditions=worker,module --outfile=lib/my-library.js',
    '```',
    '',
    'A library that imports modules of Node works if it does not depend on them. In these runs `os`, `path` and `querystring` are replaced by modules of a few lines,',
    'all other modules of Node by empty ones, and `process.env.NODE_ENV`, `process.title` and `process.version` by strings (`alias` and `define` of esbuild). The SDK of',
    'Slack also gets the npm package `buffer` as `globalThis.Buffer`. Modules are strict, so templates that compile to `with` need their strict form: `ejs` with',
    '`strict: true`, `lodash` and `underscore` with `variable`.',
    '',
    'The built-in objects of JavaScript are frozen. Two of these libraries change them while they load. Use `json5` in its build for browsers: import',
    '`json5/dist/index.mjs`. `bluebird` adds a property to `Error`: give it an `Error` of its own with `--inject:own-error.js`:',
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
    'Of libraries that are not in the table:',
    '',
    '- `reflect-metadata`, which `inversify`, `tsyringe` and `class-transformer` need, adds functions to `Reflect`. Before it, import a file with the line',
    '  `globalThis.Reflect = Object.create(Reflect);`.',
    '- A build that contains `core-js`, such as `exceljs/dist/exceljs.min.js`, replaces methods of `Function` and `Symbol`, and fails with *Cannot assign to read only property*.',
    '  Use a build without it, if there is one: plugins have the whole language.',
    '- `react-dom/server`, which React Email uses, needs `MessageChannel` in its build for browsers. Bundle it with `--conditions=edge-light,module`.',
    '',
    '| Library | Version | |',
    '|---|---|---|',
    ...rows.map(
      ({ name, version, failure }) => `| \`${name}\` | ${version} | ${failure === null ? 'works' : toCell(failure)} |`,
    ),
    '',
  ].join('\n');
}
