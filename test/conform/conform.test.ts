/** The executable specification against a running service: every sentence holds, or its row says why it was skipped. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import t from 'tap';
import type { Result } from '../../conform/check-rows.ts';
import type { CalledService } from '../deploy/service-fixture.ts';
import { freePort } from '../fixtures/free-port.ts';
import { listenOn } from '../fixtures/listening-server.ts';
import { root } from '../house/source-files.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { whyMissing } from '../runner/programs.ts';
import { amount, soakTest } from '../runner/soak.ts';
import { makeCertificate } from '../supervisor/host/http-target.ts';
import { startRestProxy } from './rest-proxy.ts';
import { shareService } from './shared-service.ts';

/**
 * The quick run checks the chapters of the specification, and every route with the ids of another account. Other files prove the
 * other sentences of the contract, most without a service.
 */
const CHECKS: readonly (readonly string[])[] = amount({
  quick: [
    ['--only', 'Specification: '],
    ['--only', 'Contract: accounts'],
  ],
  soak: [[]],
});
const ROWS_MIN = amount({ quick: 133, soak: 500 });
const OUTPUT_MAX_BYTES = 10_000_000;

const conform = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [join(root, 'conform/conform.ts'), ...args], { maxBuffer: OUTPUT_MAX_BYTES })
    .then(({ stdout, stderr }) => ({ code: 0, stdout, stderr }))
    .catch((error: { code: number; stdout: string; stderr: string }) => error);

t.test('every row that is checked holds', async (t) => {
  const service = await shareService();
  const other = await service.asUser('somebody-else');
  const results: Result[] = [];
  for (const only of CHECKS) {
    const flags = ['--other', other.token, '--keep', '--json', ...only];
    const { stdout, stderr, code } = await conform(`${service.url}/api`, service.token, ...flags);
    t.equal(stderr, '');
    const found: Result[] = JSON.parse(stdout);
    t.equal(code, found.some(({ verdict }) => verdict === 'failed') ? 1 : 0);
    results.push(...found);
  }
  t.ok(results.length >= ROWS_MIN, `${results.length} rows`);
  for (const { chapter, sentence, verdict, reason } of results) {
    const name = `${chapter}: ${sentence}`;
    if (verdict === 'failed') t.fail(name, { reason });
    else if (verdict === 'skipped') t.notMatch(reason, /--other|--sessions/, name);
    else t.pass(name);
  }

  const before = await countInstallations(service);
  const few = await conform(`${service.url}/api`, service.token, '--only', 'GET /installations/{id}');
  t.match(few, {
    code: 0,
    stdout: /held .*one installation\..*\n.*skipped .*no other account’s.*\n +needs a second account/s,
  });
  t.ok((await countInstallations(service)) <= before, 'it removed what it installed');
});

t.test('an option that it does not have is no row that failed', async (t) => {
  const usage = /^Unknown option '--jsn'.*\n\nUsage: npm run conform /;
  t.match(await conform('http://localhost/api', 'x', '--jsn'), { code: 2, stdout: '', stderr: usage });
});

/** A row that installs a plugin. */
const SMALL = ['--only', 'POST that creates answers 201.'];

async function countInstallations(user: CalledService): Promise<number> {
  const { items } = (await user.call('GET', '/api/installations?limit=1000')).body;
  return items.filter(({ status }: { status: string }) => status !== 'uninstalling').length;
}

soakTest(t, 'a removal that fails is named after the results, and the others are done', async (t) => {
  const user = await (await shareService()).asUser('unremoved');
  let kept = '';
  const url = await startRestProxy(t, user.url, ({ method, url = '' }) => {
    if (method !== 'DELETE' || !url.startsWith('/api/installations/')) return true;
    kept = url.replace('/api/', '');
    return false;
  });
  const { code, stdout, stderr } = await conform(`${url}/api`, user.token, ...SMALL);
  t.match(stdout, /1 rows: 1 held/);
  t.match(stderr, `not removed: ${kept}: fetch failed: `);
  t.equal(code, 1);
  t.equal(await countInstallations(user), 1, 'the one whose removal was refused');
});

// interruption.test.ts interrupts a check in every run.
soakTest(t, 'Ctrl-C, also as npm repeats it, ends it when it has removed what it created', async (t) => {
  const user = await (await shareService()).asUser('interrupter');
  const interrupted = Promise.withResolvers<void>();
  const url = await startRestProxy(t, user.url, async ({ method, url }) => {
    if (method !== 'POST' || url !== '/api/installations' || child.killed) return true;
    child.kill('SIGINT');
    child.kill('SIGINT');
    await interrupted.promise;
    return true;
  });
  const args = [`${url}/api`, user.token, '--only', 'Chain: '];
  const child = spawn(process.execPath, [join(root, 'conform/conform.ts'), ...args]);
  child.stderr.setEncoding('utf8').once('data', interrupted.resolve);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  t.match(stderr, /^Interrupted: the rows under way end[^\n]*\n$/);
  t.match(stdout, /the check was interrupted/, 'the rows that had not begun');
  t.equal(code, 130);
  t.equal(await countInstallations(user), 0);
});

t.test('one that cannot begin says what to do', async (t) => {
  const url = `http://localhost:${await freePort()}/api`;
  t.match(await conform('--help'), { code: 0, stdout: /^Usage: npm run conform -- <url> <token>/ });
  t.match(await conform(), { code: 2, stderr: /^Give the address and a token/ });
  t.match(await conform(url, 'x'), { code: 2, stderr: /^No deployment answers at http/ });
  t.match(await conform(url, 'x', '--only', 'no such words'), { code: 2, stderr: /^No row contains “no such words”/ });
  for (const given of [
    [url, 'bh\nsecret'],
    [url, 'x', '--other', 'bh\nsecret'],
  ]) {
    const refused = await conform(...given);
    t.match(refused, { code: 2, stderr: /^A token has a line break/ });
    t.notMatch(refused.stderr, 'secret');
  }
  const { url: page } = await shareService();
  t.match(await conform(page, 'x'), { code: 2, stderr: /GET \/sign-in gave 404 .* ends in \/api/ });
});

t.test(
  'the token is not sent unencrypted to the session API of a deployment with TLS',
  { skip: whyMissing('openssl') },
  async (t) => {
    const certificate = await makeCertificate(t, 'ec');
    const trusted = join(await temporaryFolder(t), 'certificate.pem');
    await writeFile(trusted, certificate.cert);
    const asked: string[] = [];
    const deployment = await listenOn(
      t,
      createServer(certificate, ({ url = '' }, response) => {
        asked.push(url);
        response.setHeader('content-type', 'application/json').end('{"sessionApiUrl":"http://agents.invalid"}');
      }),
    );
    const url = `${deployment.url.replace('http:', 'https:')}/api`;
    const { code, stderr } = await promisify(execFile)(
      process.execPath,
      [join(root, 'conform/conform.ts'), url, 'a.secret.token'],
      { env: { ...process.env, NODE_EXTRA_CA_CERTS: trusted } },
    ).then(
      ({ stderr }) => ({ code: 0, stderr }),
      (error: { code: number; stderr: string }) => error,
    );
    t.equal(code, 2);
    t.match(stderr, `${url} publishes http://agents.invalid as the address of its session API`);
    t.match(stderr, 'pass --sessions http://agents.invalid.\n');
    t.same(asked, ['/api/sign-in']);
  },
);
