/** `npm start` from the first line to the last process. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { forkProcess } from '../fixtures/forked-process.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { freePorts, startOnly, startServiceFixture } from './service-fixture.ts';
import { buildWorkshop } from './workshop.ts';

const LOCAL = fileURLToPath(new URL('../../deploy/local.ts', import.meta.url));
const API_MAIN = fileURLToPath(new URL('../../api/main.ts', import.meta.url));
const LINK = /http:\S+\/#code=[\w-]{43}/;
const SENTENCE = /^[A-Z][^\n]+[^.\n]\.\n$/;

const withoutLog = (stderr: string): string => stderr.replaceAll(/^\{.*\n/gm, '');

t.test('npm start -- --help prints help, any other argument is refused, and neither starts the service', async (t) => {
  const DATA_DIR = join(await temporaryFolder(t), 'data');
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  const npmStart = (argument: string) =>
    promisify(execFile)('npm', ['start', '--silent', '--', argument], { cwd, env: { ...process.env, DATA_DIR } }).then(
      ({ stdout }) => ({ code: 0, text: stdout }),
      ({ code, stderr }: { code: number; stderr: string }) => ({ code, text: stderr }),
    );
  t.match(await npmStart('--help'), { code: 0, text: /^Usage: npm start\n[\s\S]*\bPORT\b[\s\S]*docs\/settings\.md/ });
  const refused = 'npm start accepts no “--port”: settings are environment variables. See npm start -- --help.\n';
  t.match(await npmStart('--port'), { code: 2, text: refused });
  t.notOk(existsSync(DATA_DIR));
});

t.test('on a terminal it prints a sign-in link that works once', async (t) => {
  const { url } = await testDatabase(t);
  const DATA_DIR = join(await temporaryFolder(t), 'data');
  const env = { ...process.env, ...(await freePorts()), DATA_DIR, DATABASE_URL: url };
  const command = `'${process.execPath}' '${LOCAL}'`;
  const child = spawn('script', ['--quiet', '--return', '--flush', '--command', command, '/dev/null'], {
    env,
    cwd: '/',
  });
  t.teardown(() => void child.kill());
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk;
  });
  const link = await eventually(() => LINK.exec(output)?.[0] ?? false).catch(() => t.fail(output));
  const [address = '', code] = String(link).split('/#code=');
  t.match(output, /once, within five minutes; npm run -s token -- local --link makes another/);
  const redeem = () =>
    fetch(`${address}/api/sign-in`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-bulkhead-console': '1',
        origin: address,
        connection: 'close',
      },
      body: JSON.stringify({ code }),
    });
  const first = await redeem();
  t.match(await first.json(), { name: 'local', operator: true });
  t.equal((await redeem()).status, 401);
  const closed = once(child, 'close');
  child.stdin.write('\u0003');
  await closed;
});

t.test('starts, signs in, runs a plugin, and stops without leftovers on each signal', async (t) => {
  const DATA_DIR = join(await temporaryFolder(t), 'data');
  const first = await startServiceFixture(t, { DATA_DIR });
  t.equal(first.lines.filter((line) => line === `bulkhead ready ${first.url}/`).length, 1, 'ready, said once');
  t.match(await first.call('GET', '/api/me'), { status: 200, body: { name: 'local' } });
  t.ok(first.lines.includes('sign in: run npm run -s token -- local --link'), 'no terminal: no link in the log');
  t.notMatch(first.lines.join('\n') + first.stderr(), /eyJ|#code=/);
  await buildWorkshop(first);
  t.notMatch(first.stderr(), /warning|deprecat/i, 'starts without a warning');

  const commands = (await first.processes()).map(({ command }) => command);
  for (const part of [/api\/main/, /supervisor\/main/, /postgres -D/, /bwrap/, /^\/node .*child\.cjs/]) {
    t.ok(
      commands.some((command) => part.test(command)),
      `${part} runs`,
    );
  }
  first.kill('SIGTERM');
  t.match(await first.exited, {
    code: 0,
    stdout: /stopping\nthe API stopped\nthe supervisor stopped\nPostgreSQL stopped$/,
  });
  t.same(await first.leftovers(), [], 'SIGTERM leaves nothing running');

  const second = await startServiceFixture(t, { ...first.env, DATA_DIR });
  t.match(await second.call('GET', '/api/me', undefined, first.token), { status: 200 }, 'the first token still works');
  const third = await (await startOnly({ DATA_DIR })).exited;
  t.match(third, {
    code: 1,
    stderr: `DATA_DIR ${DATA_DIR} is in use by process ${second.pid}; stop it or set another DATA_DIR.\n`,
  });
  t.match(await second.call('GET', '/api/me'), { status: 200 }, 'another start is refused, and this one goes on');
  await second.processes();
  // As a terminal sends it: to the whole process group.
  process.kill(-second.pid, 'SIGINT');
  t.match(await second.exited, { code: 0 });
  t.same(await second.leftovers(), [], 'SIGINT leaves nothing running');
});

t.test('a signal while it starts stops it: no ready line, no trace', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  for (const moment of [/^starting PostgreSQL/, /^starting the API/, /^starting the supervisor/]) {
    const starting = await startOnly({ DATA_DIR });
    await starting.line(moment);
    // Before it is ready, also where this process is slow.
    starting.kill('SIGTERM');
    await starting.processes();
    const { code, stdout, stderr } = await starting.exited;
    t.equal(code, 0, `${moment}`);
    t.notMatch(stdout, 'bulkhead ready');
    t.equal(withoutLog(stderr), '', 'nothing to complain about');
    t.same(await starting.leftovers(), []);
  }
});

t.test('a failed start prints one sentence that names the setting', async (t) => {
  const { url } = await testDatabase(t);
  const DATA_DIR = await temporaryFolder(t);
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  t.teardown(() => other.close());
  const address = other.address();
  const taken = String(typeof address === 'object' ? address?.port : '');
  const { PORT: freePort } = await freePorts();
  const wrong: [Record<string, string>, RegExp][] = [
    [{ PORT: 'x' }, /^PORT must be a whole number/],
    [{ SANDBOX: 'maybe' }, /^SANDBOX must be one of auto, require, off/],
    [{ DATA_DIR: '/dev/null/data' }, /^DATA_DIR \/dev\/null\/data cannot be created/],
    [{ DATA_DIR: '/proc/a/b' }, /^DATA_DIR \/proc\/a\/b cannot be created \(ENOENT\); set DATA_DIR to a folder that/],
    [{ PORT: taken }, new RegExp(`^PORT ${taken} is in use`)],
    [{ SUPERVISOR_PORT: taken }, new RegExp(`^SUPERVISOR_PORT ${taken} is in use`)],
    [{ DATABASE_URL: `postgres://user@127.0.0.1:${freePort}/database` }, /^DATABASE_URL does not work: .*ECONNREFUSED/],
    [{ DATABASE_URL: `postgres://user@localhost:${freePort}/database` }, /^DATABASE_URL does not work: .*ECONNREFUSED/],
    [
      { DATABASE_URL: url.replace(/\/\/[^@]+@/, '//stranger:wrong@') },
      /^DATABASE_URL does not work: password authentication/,
    ],
  ];
  for (const [env, sentence] of wrong) {
    const { code, stdout, stderr } = await (await startOnly({ DATA_DIR, DATABASE_URL: url, ...env })).exited;
    t.equal(code, 1, Object.keys(env).join());
    t.match(withoutLog(stderr), sentence);
    t.match(withoutLog(stderr), SENTENCE, 'one sentence');
    t.notMatch(stdout, 'bulkhead ready');
  }
  const reads = { DATA_DIR, DATABASE_URL: url, READS_PER_MINUTE: '-1' };
  await t.rejects(forkProcess(t, API_MAIN, reads, 'SIGKILL'), { message: /did not start: READS_PER_MINUTE must be/ });
  const refused: [Record<string, string>, RegExp][] = [
    [
      { DATABASE_URL: `postgres://user@localhost:${freePort}/database` },
      /did not start: DATABASE_URL does not work: .*ECONNREFUSED/,
    ],
    [{ DATA_DIR: '/dev/null' }, /did not start: DATA_DIR \/dev\/null cannot be used \(ENOTDIR\): /],
    [{ PORT: taken }, new RegExp(`did not start: PORT ${taken} is in use`)],
    [
      { HOST: '203.0.113.9' },
      /did not start: HOST 203\.0\.113\.9 is not an address of this machine \(EADDRNOTAVAIL\)\./,
    ],
  ];
  for (const [env, message] of refused)
    await t.rejects(forkProcess(t, API_MAIN, { DATA_DIR, DATABASE_URL: url, ...env }, 'SIGKILL'), { message });
});
