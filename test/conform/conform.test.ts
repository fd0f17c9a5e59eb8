/** The executable specification against a running service: every sentence holds, or its row says why it was skipped. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import type { Result } from '../../conform/check-rows.ts';
import { freePort } from '../fixtures/free-port.ts';
import { root } from '../house/source-files.ts';
import { shareService } from './shared-service.ts';

const ROWS_MIN = 500;
const OUTPUT_MAX_BYTES = 10_000_000;

const conform = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [join(root, 'conform/conform.ts'), ...args], { maxBuffer: OUTPUT_MAX_BYTES })
    .then(({ stdout, stderr }) => ({ code: 0, stdout, stderr }))
    .catch((error: { code: number; stdout: string; stderr: string }) => error);

t.test('every row holds', async (t) => {
  const service = await shareService();
  const other = await service.asUser('somebody-else');
  const { stdout, stderr, code } = await conform(
    `${service.url}/api`,
    service.token,
    '--other',
    other.token,
    '--keep',
    '--json',
  );
  t.equal(stderr, '');
  const results: Result[] = JSON.parse(stdout);
  t.ok(results.length >= ROWS_MIN, `${results.length} rows`);
  for (const { chapter, sentence, verdict, reason } of results) {
    const name = `${chapter}: ${sentence}`;
    if (verdict === 'failed') t.fail(name, { reason });
    else if (verdict === 'skipped') t.notMatch(reason, /--other|--sessions/, name);
    else t.pass(name);
  }
  t.equal(code, results.some(({ verdict }) => verdict === 'failed') ? 1 : 0);

  const before = (await service.call('GET', '/api/installations?limit=1000')).body.items.length;
  const few = await conform(`${service.url}/api`, service.token, '--only', 'GET /installations/{id}');
  t.match(few, {
    code: 0,
    stdout: /held .*one installation\..*\n.*skipped .*no other account’s.*\n +needs a second account/s,
  });
  const { items } = (await service.call('GET', '/api/installations?limit=1000')).body;
  t.ok(
    items.filter(({ status }: { status: string }) => status !== 'uninstalling').length <= before,
    'it removed what it installed',
  );
});

t.test('one that cannot begin says what to do', async (t) => {
  const url = `http://localhost:${await freePort()}/api`;
  t.match(await conform('--help'), { code: 0, stdout: /^Usage: npm run conform -- <url> <token>/ });
  t.match(await conform(), { code: 2, stderr: /^Give the address and a token/ });
  t.match(await conform(url, 'x'), { code: 2, stderr: /^No deployment answers at http/ });
});
