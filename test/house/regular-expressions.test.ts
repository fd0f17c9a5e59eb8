/**
 * V8 goes back in a text that does not match. Many expressions then need quadratic time, and one text of a stranger stops a process for
 * all its users. So an expression of the product is linear, or is listed here with the reason why its text stays short.
 */
import t from 'tap';
import { findAttack } from './backtracking.ts';
import { parseSource, readSources } from './source-files.ts';

/** File and expression. */
const HARMLESS: ReadonlyMap<string, string> = new Map([
  [
    String.raw`sandbox-child/constant-globals.ts /\b(?:defineProperty|set)\([^"'${'`'}]*,\s*["'${'`'}]$/`,
    'reads AROUND_CHARS, 80 characters: microseconds',
  ],
  [String.raw`docs/site/pages.ts /<!--[\s\S]*?-->\s*/g`, 'reads documents of the project'],
  [
    String.raw`conform/runtime/scenarios/message-scenarios.ts /one \[card\].*First answer\..*two/s`,
    'reads an answer of the suite’s own model, of some hundred characters',
  ],
  [
    String.raw`service/telemetry/logger.ts /\beyJ(?:(?!\beyJ)[\w-]){8,}\.[\w-]+\.[\w-]*/g`,
    'linear: an attempt ends where the next one begins. 64 KB take a millisecond',
  ],
  [
    String.raw`examples/ssh-guard/secrets.ts /\beyJ(?:(?!\beyJ)[\w-]){10,}\.[\w-]{10,}\.[\w-]+/g`,
    'linear: an attempt ends where the next one begins. 64 KB take a millisecond',
  ],
  ...[
    String.raw`/(?<![-\w.]|\bgit )rm(?=\s)(?:(?!\brm\s|\s#)[^;&|\n])*?\s["']?(?:\/|(?:~|\$\{?HOME\}?)["']?\/?)\*?["']?(?=[\s;&|)]|$)/`,
    String.raw`/\bdd\b(?:(?!\bdd\b)[^|;&])*\bof=\/dev\/|>\s*\/dev\/(?:sd|nvme|vd|disk)/`,
    String.raw`/(?:(?:^|[;&|\n])[ \t]*|\bsudo(?:[ \t]+-(?:(?!\bsudo\b)[^\s;&|])+)*[ \t]+)(?:[\w./]*\/)?(?:systemctl[ \t]+)?(?:shutdown|reboot|halt|poweroff)(?![\w.:=-])/`,
    String.raw`/\b(?:curl|wget)\b(?:(?!\b(?:curl|wget)\b)[^|;&])*\|\s*(?:sudo\s+(?:-[^\s|;&]+\s+)*)?(?:\/[\w/]*\/)?(?:ba|z|da)?sh\b/`,
    String.raw`/\bchmod\s+(?:-(?:(?!\bchmod\b)\S)+\s+)*0?777\s+\/(?:\s|$)/`,
  ].map((expression): [string, string] => [
    `examples/ssh-guard/dangers.ts ${expression}`,
    'linear: an attempt ends where the next one begins. 64 KB take 2 ms',
  ]),
]);

const expressionsOf = (text: string) => parseSource('api/x.ts', text).expressions;

t.test('literals and constant texts are read, also from templates', async (t) => {
  const text = [
    "const WORD = '\\\\w+';",
    `const two = new RegExp(\`^\${WORD} \${WORD}$\`, "i");`,
    `const raw = new RegExp(String.raw\`\\d\${WORD}\`);`,
    'const literal: RegExp = /a\\/b/gu;',
    'const unknown = new RegExp(process.argv[2]);',
  ].join('\n');
  t.same(expressionsOf(text), [
    { source: String.raw`^\w+ \w+$`, flags: 'i' },
    { source: String.raw`\d\w+`, flags: '' },
    { source: String.raw`a\/b`, flags: 'gu' },
  ]);
});

t.test('expressions of more than linear time are found', async (t) => {
  const superlinear = [
    // These three stopped processes of the product.
    /^(?:\d+(?:\.\d+){3}(?::\d+)?|.*:.*:.*)$/,
    /^data:([^;,]*)([^,]*),(.*)$/is,
    /^[\s>*+\-\d.):|]*\|[\s>*+\-\d.):|]*$/,
    // The start is searched at each of many places.
    /\/+$/,
    /^\/+|\/+$/,
    /<!--[\s\S]*?-->/,
    /\s*[\r\n]+\s*/,
    /^\s*\/\/.*$/m,
    /\beyJ[\w-]{8,4000}\.x/,
    // Two repetitions share a text.
    /^.*foo.*bar$/,
    /^(?:ab)*(?:ab)*$/,
    /^x(?=\s*\s*y)/,
    /a(?!.*b)/g,
    // Exponential.
    /^(?:a+)+b/,
    /^(?:a|a)+b/,
    /^(?:\w|[a-f]\d)*$/,
  ];
  for (const { source, flags } of superlinear) t.ok(findAttack(source, flags), source);
});

t.test('linear expressions are left alone', async (t) => {
  const linear = [
    /a+/,
    /"[^"]*"/,
    /(?<!\/)\/+$/,
    /^([^:]*):? ?(.*)$/s,
    /^[^\S\n]*\/\/.*$/m,
    /^(?:[a-z](?:[a-z-]{0,61}[a-z])?\.)+[a-z]+$/,
    /"(?:[^"\\]|\\[\s\S]?)*(?:"|$)/,
    /\b\w+\b\s/,
    /[^\p{L}\p{N}_]+/u,
  ];
  for (const { source, flags } of linear) t.equal(findAttack(source, flags), null, source);
});

t.test('the regular expressions of the product take linear time', async (t) => {
  const product = (await readSources()).filter(({ path }) => !/^(?:test|bench)\//.test(path));
  const found = new Map<string, string>();
  for (const { path, expressions } of product)
    for (const { source, flags } of expressions) {
      const attack = findAttack(source, flags);
      if (attack) found.set(`${path} /${source}/${flags}`, JSON.stringify(attack));
    }
  const unlisted = [...found].filter(([expression]) => !HARMLESS.has(expression)).map((entry) => entry.join(' '));
  t.same(unlisted, [], 'rewrite them, or list them with what bounds their text');
  t.same(
    [...HARMLESS.keys()].filter((expression) => !found.has(expression)),
    [],
    'listed ones exist',
  );
});
