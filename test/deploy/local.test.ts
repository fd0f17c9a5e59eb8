/** `npm start` from the first line to the last process. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { readConfig as readApiConfig } from '../../api/config.ts';
import { makeDataDir } from '../../db/files/data-dir.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { openIssuer } from '../../service/identity/tokens.ts';
import { requireDatabase, requireDataDir } from '../../service/lifecycle/start-faults.ts';
import { readConfig as readSupervisorConfig } from '../../supervisor/config.ts';
import { forkProcess } from '../fixtures/forked-process.ts';
import { freePort } from '../fixtures/free-port.ts';
import { untilLockIsAwaited } from '../fixtures/lock-waits.ts';
import { mountSmallDisk, NO_DISK } from '../fixtures/small-disk.ts';
import { eventually } from '../runner/eventually.ts';
import { killProcess, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { amount, isSoak, soakTest } from '../runner/soak.ts';
import { processTree, stillRunning } from './process-tree.ts';
import { type Environment, freePorts, startOnly, startServiceFixture } from './service-fixture.ts';
import { buildWorkshop } from './workshop.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LOCAL = fileURLToPath(new URL('../../deploy/local.ts', import.meta.url));
const API_MAIN = fileURLToPath(new URL('../../api/main.ts', import.meta.url));
const SUPERVISOR_MAIN = fileURLToPath(new URL('../../supervisor/main.ts', import.meta.url));
const MIGRATE = fileURLToPath(new URL('../../deploy/migrate.ts', import.meta.url));
const LINK = /http:\S+\/#code=[\w-]{43}/;
/** PostgreSQL's own files take 60 MB of it. Less than any MIN_FREE_MEGABYTES that a test sets. */
const DISK_MEGABYTES = 200;
/** The start of the API interrupts a supervisor that runs; that of the supervisor is one step less. */
const MOMENTS = [/^starting PostgreSQL/, /^starting the API/, /^starting the supervisor/];
const MUCH_MEGABYTES = 1_000_000;
const PROVIDER = {
  name: 'acme',
  kind: 'openai',
  baseUrl: 'http://127.0.0.1:1',
  apiKeyEnv: 'ACME_KEY',
  models: ['m'],
};
const SENTENCE = /^[A-Z][^\n]+[^.\n]\.\n$/;

const run = promisify(execFile);
/** The processes of which the output says that they are not ready. */
const listUnready = (output: string): (string | undefined)[] =>
  [...output.matchAll(/^The (\w+) is not ready: .* MIN_FREE_MEGABYTES \((\d+)\)\.\r?$/gm)].map(([, name]) => name);
const withoutLog = (stderr: string): string => stderr.replaceAll(/^\{.*\n/gm, '');

const disk = await mountSmallDisk(t, DISK_MEGABYTES);
/** One database for all starts: the first is interrupted while it makes it. */
const DATA_DIR = join(disk?.folder ?? (await temporaryFolder(t)), 'data');

t.test('npm start -- --help prints help, any other argument is refused, and neither starts the service', async (t) => {
  const env = { ...process.env, DATA_DIR };
  const [program, words] = isSoak() ? ['npm', ['start', '--silent', '--']] : [process.execPath, [LOCAL]];
  const help = await run(program, [...words, '--help'], { cwd: ROOT, env });
  t.match(help.stdout, /^Usage: npm start\n[\s\S]*\bPORT\b[\s\S]*docs\/settings\.md/);
  const refused = 'npm start accepts no “--port”: settings are environment variables. See npm start -- --help.\n';
  t.match(await run(process.execPath, [LOCAL, '--port'], { cwd: '/', env }).catch((error: unknown) => error), {
    code: 2,
    stderr: refused,
  });
  t.notOk(existsSync(DATA_DIR));
});

// npm-start.test.ts interrupts a start in every run.
soakTest(t, 'a signal while it starts stops it: no ready line, no trace', async (t) => {
  for (const moment of MOMENTS) {
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

soakTest(t, 'a signal while migrations wait for a lock stops it, and they are not applied', async (t) => {
  const { url, pool } = await testDatabase(t);
  const { rows } = await pool.query(
    'DELETE FROM migrations WHERE id = (SELECT max(id) FROM migrations) RETURNING name',
  );
  const dump = await pool.connect();
  t.teardown(() => dump.release(true));
  await dump.query('BEGIN; LOCK TABLE migrations IN ACCESS EXCLUSIVE MODE');
  const starting = await startOnly({ DATA_DIR: join(await temporaryFolder(t), 'data'), DATABASE_URL: url });
  await starting.line(/^the migrations wait for locks/);
  await untilLockIsAwaited(pool);
  await starting.processes();
  starting.kill('SIGTERM');
  const { code, stdout, stderr } = await starting.exited;
  t.equal(code, 0);
  t.match(stdout, /\nstopping$/);
  t.equal(withoutLog(stderr), '');
  t.same(await starting.leftovers(), []);
  await dump.query('COMMIT');
  t.same((await pool.query('SELECT FROM migrations WHERE name = $1', [rows[0].name])).rows, []);
});

// In every run, recovery.test.ts looks at such a start.
soakTest(t, 'starts, signs in, runs a plugin, and stops without leftovers', async (t) => {
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
});

t.test('on a terminal it prints a sign-in link that works once, and Ctrl-C stops it', async (t) => {
  const cwd = await temporaryFolder(t);
  const [file, models] = [join(cwd, '.env'), join(cwd, 'models.json')];
  await writeFile(models, '[]');
  await writeFile(file, `MIN_FREE_MEGABYTES=${MUCH_MEGABYTES}\nMODELS_FILE=${models}\n`);
  const DATABASE_URL = isSoak() ? '' : (await testDatabase(t)).url;
  const terminal = startOnTerminal(t, { ...(await freePorts()), DATA_DIR, DATABASE_URL }, cwd);
  const link = await eventually(() => LINK.exec(terminal.output())?.[0] ?? false).catch(() =>
    t.fail(terminal.output()),
  );
  const [address = '', code] = String(link).split('/#code=');
  t.match(terminal.output(), /once, within five minutes; npm run -s token -- local --link makes another/);
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
  const signedIn = await redeem();
  t.match(await signedIn.json(), { name: 'local', operator: true });
  t.equal((await redeem()).status, 401);
  const authorization = `Bearer ${await (await openIssuer(DATA_DIR)).issue('local')}`;
  const callMe = () => fetch(`${address}/api/me`, { headers: { authorization, connection: 'close' } });
  t.equal((await callMe()).status, 200);

  const skip = disk === null ? NO_DISK : false;
  await t.test('says which process is not ready, and keeps its .env after a crash', { skip }, async (t) => {
    t.same(listUnready(terminal.output()), ['supervisor', 'API']);
    if (!isSoak()) return;
    const killMain = async (main: string) =>
      killProcess((await processTree(terminal.pid)).find(({ command }) => command.includes(main))?.pid);
    await writeFile(file, 'UPLOADS_AT_ONCE=abc\nACME_KEY=x\n');
    await killMain('api/main.ts');
    await eventually(() => /^The API is running again\.\r?$/m.test(terminal.output()));
    t.same(listUnready(terminal.output()), ['supervisor', 'API', 'API']);
    await writeFile(models, JSON.stringify([PROVIDER]));
    await killMain('supervisor/main.ts');
    await eventually(() => /^The supervisor is running again\.\r?$/m.test(terminal.output()));
  });

  const running = await processTree(terminal.pid);
  const service = running.find(({ command }) => command === `${process.execPath} ${LOCAL}`);
  if (isSoak()) {
    t.match(await (await startOnly({ DATA_DIR })).exited, {
      code: 1,
      stderr: `DATA_DIR ${DATA_DIR} is in use by process ${service?.pid}; stop it or set another DATA_DIR.\n`,
    });
    t.equal((await callMe()).status, 200, 'another start is refused, and this one goes on');
  }
  terminal.pressCtrlC();
  t.equal(await terminal.exited, 0);
  const leftovers = () => stillRunning(running);
  t.same(await eventually(async () => (await leftovers()).length === 0 && []).catch(leftovers), []);
});

t.test('a migration of a newer release is named', async (t) => {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const env = { ...process.env, DATABASE_URL, DATA_DIR: await temporaryFolder(t) };
  const runMigrate = async () => (await run(process.execPath, [MIGRATE], { cwd: '/', env })).stdout;
  if (isSoak()) t.equal(await runMigrate(), 'the tables are of this release\n');
  await pool.query(`INSERT INTO migrations (name, run_on) VALUES ('9999_newer', now())`);
  t.equal(await runMigrate(), 'the tables are of a newer release\n');
});

soakTest(t, 'a migration without a second connection has not failed', async (t) => {
  const { url } = await testDatabase(t);
  const { hostname, port } = new URL(url);
  let connections = 0;
  const proxy = createServer((socket) => {
    connections += 1;
    if (connections > 1) return void socket.destroy();
    const upstream = connect(Number(port), hostname);
    pipeline(socket, upstream, socket, () => undefined);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => proxy.close());
  const address = new URL(url);
  address.port = String((proxy.address() as AddressInfo).port);
  const env = { ...process.env, DATABASE_URL: address.href, DATA_DIR: await temporaryFolder(t) };
  t.equal((await run(process.execPath, [MIGRATE], { cwd: '/', env })).stdout, 'no migration was missing\n');
  t.equal(connections, 2);
});

/** Starts it as the foreground program of a terminal, whose Ctrl-C goes to its whole process group. @param cwd its working folder */
function startOnTerminal(t: Test, env: Environment, cwd: string) {
  const command = `exec '${process.execPath}' '${LOCAL}'`;
  const args = ['--quiet', '--return', '--flush', '--command', command, '/dev/null'];
  const child = spawn('script', args, { env: { ...process.env, ...env }, cwd });
  t.teardown(() => void child.kill());
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk;
  });
  return {
    pid: child.pid ?? 0,
    output: () => output,
    pressCtrlC: () => void child.stdin.write('\u0003'),
    exited: once(child, 'close').then(([code]) => code as number),
  };
}

t.test('a failed start prints one sentence that names the setting', async (t) => {
  const { url } = await testDatabase(t);
  const own = await temporaryFolder(t);
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  t.teardown(() => other.close());
  const address = other.address();
  const taken = String(typeof address === 'object' ? address?.port : '');
  const nowhere = `postgres://user@localhost:${await freePort()}/database`;
  type Fault = readonly [Record<string, string>, RegExp];
  const wrong: readonly Fault[] = [[{ IDLE_STOP_SECONDS: '1.5' }, /^IDLE_STOP_SECONDS must be a whole number/]];
  const similar: readonly Fault[] = [
    [{ PORT: taken }, new RegExp(`^PORT ${taken} is in use`)],
    [
      { DATABASE_URL: url.replace(/\/\/[^@]+@/, '//stranger:wrong@') },
      /^DATABASE_URL does not work: password authentication/,
    ],
    [{ PORT: 'x' }, /^PORT must be a whole number/],
    [{ READS_PER_MINUTE: '-1' }, /^READS_PER_MINUTE must be a whole number/],
    [{ DATA_DIR: '/dev/null/data' }, /^DATA_DIR \/dev\/null\/data cannot be created/],
    [{ DATABASE_URL: nowhere }, /^DATABASE_URL does not work: .*ECONNREFUSED/],
  ];
  for (const [env, sentence] of isSoak() ? [...wrong, ...similar] : wrong) {
    const { code, stdout, stderr } = await (await startOnly({ DATA_DIR: own, DATABASE_URL: url, ...env })).exited;
    t.equal(code, 1, Object.keys(env).join());
    t.match(withoutLog(stderr), sentence);
    t.match(withoutLog(stderr), SENTENCE, 'one sentence');
    t.notMatch(stdout, 'bulkhead ready');
    if (sentence.source.includes(' must be ')) t.equal(stdout, '', 'before anything is started or migrated');
  }
  const database = { DATA_DIR: own, DATABASE_URL: url };
  // The start above repeats what the API says.
  if (isSoak())
    await t.rejects(forkProcess(t, API_MAIN, { ...database, PORT: taken }, 'SIGKILL'), {
      message: new RegExp(`did not start: PORT ${taken} is in use`),
    });
  await writeFile(join(own, 'restore.unfinished'), '');
  // Both open their data in the same way.
  for (const main of amount({ quick: [SUPERVISOR_MAIN], soak: [API_MAIN, SUPERVISOR_MAIN] }))
    await t.rejects(forkProcess(t, main, database, 'SIGKILL'), {
      message: new RegExp(`did not start: A restore into ${own} was interrupted\\.`),
    });
  const migrating = run(process.execPath, [MIGRATE], { cwd: '/', env: { ...process.env, ...database } });
  await t.rejects(migrating, { code: 1, stderr: new RegExp(`^A restore into ${own} was interrupted\\.`) });
});

t.test('API and supervisor name the setting that is wrong', async (t) => {
  t.throws(() => readApiConfig({ READS_PER_MINUTE: '-1' }), { message: /^READS_PER_MINUTE must be/ });
  t.throws(() => readSupervisorConfig({ SANDBOX: 'maybe' }), { message: /^SANDBOX must be one of auto, require, off/ });
  await t.rejects(makeDataDir('/proc/a/b'), {
    message: /^DATA_DIR \/proc\/a\/b cannot be created \(ENOENT\); set DATA_DIR to a folder that/,
  });
  const disk = await mountSmallDisk(t, 1);
  await disk?.fill();
  if (disk)
    await t.rejects(makeDataDir(disk.folder), {
      message: /^DATA_DIR .* cannot be written \(ENOSPC\): make room there, or set DATA_DIR to a folder that/,
    });
  await t.rejects(requireDataDir('/dev/null'), { message: /^DATA_DIR \/dev\/null cannot be used \(ENOTDIR\): / });
  const port = await freePort();
  for (const host of ['127.0.0.1', 'localhost']) {
    const options = { name: 'test', connections: 1, onError: () => undefined };
    const { pool, close } = openPool(`postgres://user@${host}:${port}/database`, options);
    t.teardown(close);
    await t.rejects(requireDatabase(pool, 'DATABASE_URL'), { message: /^DATABASE_URL does not work: .*ECONNREFUSED/ });
  }
});
