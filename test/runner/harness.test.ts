/** Programs that are not test files use the harness as well: benchmarks, and `npm run conform:runtime`. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { testDatabase } from './harness.ts';

const PROGRAM = `
import { testDatabase } from './test/runner/harness.ts';
const endings = [];
const { pool } = await testDatabase({ teardown: (end) => endings.push(end) });
console.log((await pool.query('SELECT 1 AS one')).rows[0].one);
for (const end of endings.reverse()) await end();
`;

t.test('a program ends when it has given its database back', async (t) => {
  // Starts the server, if this file was run on its own.
  await testDatabase(t);
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', PROGRAM]);
  t.match(stdout, /^1$/m);
});
