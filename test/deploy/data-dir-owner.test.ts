/** Root uses a DATA_DIR of another user: that user's service works afterwards, and no file in it is root's. */
import { execFile } from 'node:child_process';
import { chown, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { isSoak } from '../runner/soak.ts';
import { operatorProcess } from './operator-command.ts';
import { type StartedService, startOnly, startServiceFixture } from './service-fixture.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TOKEN = fileURLToPath(new URL('../../deploy/token.ts', import.meta.url));
/** The user `daemon`, whom every distribution has: initdb requires a name. */
const OWNER = 1;
const AS_OWNER = [`--reuid=${OWNER}`, `--regid=${OWNER}`, '--clear-groups'];
const skip = process.getuid?.() !== 0 && 'needs root';
const run = promisify(execFile);

/** Whether that user may read this checkout, which may be below /root. */
const mayRead = (): Promise<boolean> =>
  run('setpriv', [...AS_OWNER, 'ls', ROOT]).then(
    () => true,
    () => false,
  );

async function listForeignFiles(folder: string): Promise<string[]> {
  const paths = await readdir(folder, { recursive: true });
  const owners = await Promise.all(paths.map(async (path) => (await stat(join(folder, path)).catch(() => null))?.uid));
  return paths.filter((_, index) => owners[index] !== undefined && owners[index] !== OWNER);
}

/** A quick run stops it when PostgreSQL runs: what it starts afterwards has its user. */
async function start(t: Test, DATA_DIR: string): Promise<StartedService> {
  if (isSoak()) {
    const service = await startServiceFixture(t, { DATA_DIR });
    t.match(await service.call('GET', '/api/me'), { status: 200 });
    return service;
  }
  const starting = await startOnly({ DATA_DIR });
  await starting.line(/^starting the supervisor$/);
  return starting;
}

t.test('root acts as the owner of DATA_DIR, or refuses', { skip }, async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  await chown(DATA_DIR, OWNER, OWNER);
  if (!(await mayRead())) {
    const refusal = /^DATA_DIR .* belongs to user 1, who may not read .*\n$/;
    t.match(await operatorProcess({ DATA_DIR }, 'actions'), { code: 1, stderr: refusal });
    t.match(await (await startOnly({ DATA_DIR })).exited, { code: 1, stderr: refusal });
    t.same(await readdir(DATA_DIR), [], 'nothing was created');
    return;
  }
  const service = await start(t, DATA_DIR);
  const processes = await service.processes();
  for (const { pid, command } of processes) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    if (status !== '') t.match(status, /^Uid:\s+(?!0\s)/m, command.slice(0, 60));
  }
  service.kill('SIGTERM');
  t.match(await service.exited, { code: 0 });
  t.same(await listForeignFiles(DATA_DIR), []);
  await run(process.execPath, [TOKEN, 'ann'], { cwd: '/', env: { ...bareEnvironment, DATA_DIR } });
  if (isSoak()) t.match(await operatorProcess({ DATA_DIR }, 'rotate-key'), { code: 0 });
  t.same(await listForeignFiles(DATA_DIR), [], 'after commands that started PostgreSQL');
  const backup = join(await temporaryFolder(t), 'x.backup');
  await writeFile(backup, '', { mode: 0o600 });
  t.match(await operatorProcess({ DATA_DIR }, 'restore', backup), {
    code: 1,
    stderr: `${backup} cannot be read (EACCES): let the user who owns DATA_DIR read it.\n`,
  });
  const folder = await temporaryFolder(t);
  t.match(await operatorProcess({ DATA_DIR }, 'backup', join(folder, 'y.backup')), {
    code: 1,
    stderr: `The folder ${folder} cannot be written by user ${OWNER}, as whom this command runs: choose another one, or let that user write there.\n`,
  });
  const workspaces = join(DATA_DIR, 'workspaces');
  await mkdir(workspaces, { recursive: true, mode: 0o700 });
  await chown(workspaces, 0, 0);
  await chown(folder, OWNER, OWNER);
  t.match(await operatorProcess({ DATA_DIR }, 'backup', join(folder, 'y.backup')), {
    code: 1,
    stderr: `${workspaces} cannot be used (EACCES): ${workspaces} belongs to user 0. Run chown -R <user> ${DATA_DIR} as root, with the user who runs the service.\n`,
  });
  await chown(workspaces, OWNER, OWNER);
  const key = join(DATA_DIR, 'keys', 'of-root');
  await writeFile(key, '', { mode: 0o600 });
  t.match(await operatorProcess({ DATA_DIR }, 'backup', join(folder, 'y.backup')), {
    code: 1,
    stderr: `${key} cannot be used (EACCES): ${key} belongs to user 0.`,
  });
  await rm(key);
  const lock = join(DATA_DIR, 'lock');
  await chown(lock, 0, 0);
  await t.rejects(run(process.execPath, [TOKEN, 'ann'], { cwd: '/', env: { ...bareEnvironment, DATA_DIR } }), {
    code: 1,
    stderr: `${lock} cannot be used (EACCES): ${lock} belongs to user 0. Run chown -R <user> ${DATA_DIR} as root, with the user who runs the service.\n`,
  });
  await chown(lock, OWNER, OWNER);
  const log = join(DATA_DIR, 'postgres.log');
  await chown(log, 0, 0);
  t.match(await (await startOnly({ DATA_DIR })).exited, {
    code: 1,
    stderr: `${log} cannot be used (EACCES): ${log} belongs to user 0. Run chown -R <user> ${DATA_DIR} as root, with the user who runs the service.\n`,
  });
});

t.test('a user who may not read and write DATA_DIR is advised to act as its owner', { skip }, async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  await mkdir(join(DATA_DIR, 'postgres'));
  if (!(await mayRead())) return;
  const command = [...AS_OWNER, process.execPath, TOKEN, 'ann'];
  await t.rejects(run('setpriv', command, { cwd: '/', env: { ...bareEnvironment, DATA_DIR } }), {
    code: 1,
    stderr: `This user may not read and write DATA_DIR ${DATA_DIR}. Run the command as the user of the service.\n`,
  });
});

t.test('a DATA_DIR of root stays root’s', { skip }, async (t) => {
  const DATA_DIR = join(await temporaryFolder(t), 'data');
  const { url: DATABASE_URL } = await testDatabase(t);
  await run(process.execPath, [TOKEN, 'ann'], { cwd: '/', env: { ...bareEnvironment, DATA_DIR, DATABASE_URL } });
  t.equal((await stat(join(DATA_DIR, 'keys'))).uid, 0);
});
