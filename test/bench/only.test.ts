/** A measurement of which `--only` selects nothing fails, instead of reporting that it met all goals. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';

for (const [name, known] of [
  ['neighbours', 'spins for ever'],
  ['accounts', 'tools that never end after a minute'],
] as const)
  t.test(name, async (t) => {
    const program = fileURLToPath(new URL(`../../bench/${name}.ts`, import.meta.url));
    const run = promisify(execFile)(process.execPath, [program, '--only', 'spinning']);
    const failed = await run.catch((error: unknown) => error);
    t.match(failed, { code: 1, stdout: '' });
    t.match(failed, { stderr: /^--only spinning: / });
    t.match(failed, { stderr: known }, 'it lists what there is');
  });
