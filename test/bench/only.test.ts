/** A measurement that its options leave nothing to measure fails, instead of reporting that it met all goals. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';

/** Runs a benchmark. @returns the error if it fails */
function run(name: string, options: readonly string[]): Promise<unknown> {
  const program = fileURLToPath(new URL(`../../bench/${name}.ts`, import.meta.url));
  return promisify(execFile)(process.execPath, [program, ...options]).catch((error: unknown) => error);
}

for (const [name, known] of [
  ['neighbours', 'spins for ever'],
  ['accounts', 'tools that never end after a minute'],
] as const)
  t.test(`--only of ${name}`, async (t) => {
    const failed = await run(name, ['--only', 'spinning']);
    t.match(failed, { code: 1, stdout: '' });
    t.match(failed, { stderr: /^--only spinning: / });
    t.match(failed, { stderr: known }, 'it lists what there is');
  });

for (const [name, options, sentence] of [
  ['neighbours', ['--seconds', '30s'], '--seconds 30s: give a positive number.\n'],
  ['accounts', ['--seconds', '0'], '--seconds 0: give a positive number.\n'],
  ['catalog', ['--requests', 'x'], '--requests x: give a positive number.\n'],
  ['turn', ['0x'], 'turns 0x: give a positive number.\n'],
] as const)
  t.test(`numbers of ${name}`, async (t) =>
    t.match(await run(name, options), { code: 1, stdout: '', stderr: sentence }),
  );
