/** The command that tries out high availability, before it starts anything. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';

const PROGRAM = fileURLToPath(new URL('../../deploy/ha/start.ts', import.meta.url));
const start = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [PROGRAM, ...args])
    .then(({ stdout, stderr }) => ({ code: 0, stdout, stderr }))
    .catch((error: { code: number; stdout: string; stderr: string }) => error);

t.test('an option that cannot be used is named in one line', async (t) => {
  for (const port of ['http', '0', '65536']) {
    const { code, stdout, stderr } = await start('--session-port', port);
    t.same([code, stdout, stderr], [1, '', '--session-port must be a whole number from 1 to 65535.\n']);
  }
  t.match(await start('--prot', '1'), { code: 1, stdout: '', stderr: /^Unknown option '--prot'.*\n$/ });
});

t.test('--help starts nothing', async (t) => {
  t.match(await start('--help'), { code: 0, stdout: /^Usage: /, stderr: '' });
});
