/** The ambient types an author compiles against: exact for what exists, absent for what does not. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { events, hooks, hostCalls } from '../../sdk/contract/protocol.ts';
import type { HookRow } from '../../sdk/contract/rows.ts';
import { temporaryFolder } from '../runner/harness.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** The errors of the compiler. Empty: none. */
async function complaints(project: string): Promise<string> {
  const tsc = join(root, 'test/node_modules/typescript-7/bin/tsc');
  return run(tsc, ['-p', project, '--singleThreaded'], { cwd: root }).then(
    () => '',
    // A compiler that does not start has empty output; it must not pass as “no complaints”.
    (error: { stdout: string; message: string }) => error.stdout || error.message,
  );
}

// One project: each of its files is a module, and the compiler names the file that it complains about.
t.test(
  'every row compiles, right and wrong, and every example of the reference and of the pages for authors',
  async (t) => {
    const directory = await temporaryFolder(t);
    await writeFile(join(directory, 'rows.ts'), rowCases().join('\n'));
    const reference = await readFile(join(root, 'sdk/REFERENCE.md'), 'utf8');
    const blocks = [...reference.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
    t.ok(blocks.length > 25, `${blocks.length} examples found`);
    // Some examples of the pages are parts of handlers, which have these.
    const context =
      'declare const text: string;\ndeclare const request: Parameters<NonNullable<typeof channel.receive>>[0];';
    await writeFile(join(directory, 'context.d.ts'), context);
    for (const page of ['host-members', 'authoring']) {
      const text = await readFile(join(root, `docs/${page}.md`), 'utf8');
      blocks.push(...[...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code));
    }
    // docs/package-format.md says so.
    await writeFile(join(directory, 'typed.js'), 'export const half = (number) => number / 2;\n');
    await writeFile(join(directory, 'typed.d.ts'), 'export declare const half: (number: number) => number;\n');
    await writeFile(join(directory, 'untyped.js'), 'export const third = (number) => number / 3;\n');
    blocks.push(
      `import { half } from './typed.js';\n// @ts-expect-error TS7016\nimport { third } from './untyped.js';\nvoid half(third(1)).toFixed();`,
    );
    for (const [index, code] of blocks.entries()) await writeFile(join(directory, `example-${index}.ts`), code);
    const config = { extends: join(root, 'sdk/tsconfig.plugin.json'), include: ['*.ts'] };
    await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config));
    t.equal(await complaints(directory), '');
  },
);

/** Makes wrong code for each row: a misspelt name, a wrong answer, a veto in a hook that cannot veto, a context with fewer fields. */
function rowCases(): string[] {
  const wrong = '// @ts-expect-error';
  const lines = Object.entries<HookRow>(hooks).flatMap(([name, { cancellable }]) => [
    `${name} = (ctx) => { host.log(ctx.hook, [ctx.signal.aborted, ctx.deadlineAt, ctx.trigger]); };`,
    `${name} = (ctx) => {`,
    ...(cancellable ? [] : [wrong]),
    `  ctx.cancel('no');\n};`,
    ...[
      wrong,
      `${name}s = () => {};`,
      wrong,
      `${name} = () => 7;`,
      wrong,
      `${name} = (ctx) => host.log('x', ctx.nothing);`,
    ],
  ]);
  for (const name of Object.keys(events))
    lines.push(
      `events.${name} = ({ id, type, attempt, data, signal }) => host.log(id, { type, attempt, data, late: signal.aborted });`,
      ...[wrong, `events.${name}s = () => {};`, wrong, `events.${name} = () => 7;`],
      ...[
        wrong,
        `events.${name} = (event) => host.log('x', event.nothing);`,
        wrong,
        `events.${name} = (event) => event.cancel('x');`,
      ],
    );
  for (const name of Object.keys(hostCalls))
    lines.push(wrong, `await host.${name}s();`, wrong, `await host.${name}(Symbol());`);
  return lines;
}
