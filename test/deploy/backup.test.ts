/** Backup, wipe, restore: everything that had been answered is back, secrets open, plugins run. A bad backup changes nothing. */
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openIssuer, openVerifier } from '../../service/identity/tokens.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { operator, startOperator } from './operator-command.ts';
import { startOnly, startServiceFixture } from './service-fixture.ts';
import { buildWorkshop } from './workshop.ts';

const folder = await temporaryFolder(t);
const file = join(folder, 'bulkhead.backup');

t.test('a running service is backed up, restarted by hand, and its disaster undone', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  const service = await startServiceFixture(t, { DATA_DIR });
  const workshop = await buildWorkshop(service);
  mkdirSync(join(DATA_DIR, 'workspaces', 'a'), { recursive: true });
  writeFileSync(join(DATA_DIR, 'workspaces', 'a', 'notes.txt'), 'rye');
  symlinkSync('/etc/passwd', join(DATA_DIR, 'workspaces', 'a', 'link'));
  const env = { DATA_DIR };

  await t.test('an operator sees it and starts an installation anew', async (t) => {
    const countChildren = async () => JSON.parse((await operator(env, 'fleet', '--json')).stdout).children;
    const [child] = await eventually(async () => {
      const children = await countChildren();
      return children[0]?.state === 'running' && children;
    });
    t.match(child, { slug: 'witness', semVer: '1.0.0', account: 'local', restarts: 0 });
    t.match(await operator(env, 'installations', '--plugin', 'witness'), { stdout: /witness .*1\.0\.0 .*ready/ });
    t.match(await operator(env, 'restart', child.installationId), { code: 0, stdout: /“witness”/ });
    await eventually(async () => (await countChildren()).length === 0);
    t.equal(await workshop.prompt(), 'Be brief. warm k3y');
    const [anew] = await eventually(async () => {
      const children = await countChildren();
      return children[0]?.state === 'running' && children;
    });
    t.not(anew.startedAt, child.startedAt);
  });

  await eventually(() => workshop.logged('prompted', 2));
  const facts = await workshop.look();
  const result = await operator(env, 'backup', file, '--check', '--json');
  const made = JSON.parse(result.stdout);
  t.match(made, { command: 'backup', path: file, checked: { secrets: 1 } }, result.stderr);
  t.equal(made.checked.rows, made.rows);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.match(await operator(env, 'backup', file), { code: 1, stderr: /exists already/ });
  t.match(await operator(env, 'restore', file), { code: 1, stderr: /A service runs on/ });
  t.equal((await workshop.publish('2.0.0')) && (await workshop.prompt()), 'Be brief. warm k3y');
  service.kill('SIGTERM');
  await service.exited;
  t.match(await operator(env, 'restore', file), { code: 1, stderr: /is not empty/ });

  const elsewhere = join(folder, 'elsewhere');
  await t.test('a service does not start where a restore was killed while it created the database', async (t) => {
    const child = startOperator({ DATA_DIR: elsewhere }, 'restore', file);
    const ended = once(child, 'exit');
    await eventually(() => existsSync(join(elsewhere, 'lock')));
    child.kill('SIGKILL');
    t.same(await ended, [null, 'SIGKILL']);
    const { exited } = await startOnly({ DATA_DIR: elsewhere });
    t.match(await exited, { code: 1, stderr: /^A restore into .* was interrupted\. Run .* restore <file> again\./ });
  });
  const restored = await operator({ DATA_DIR: elsewhere }, 'restore', file);
  t.match(
    restored,
    {
      code: 0,
      stdout:
        /are restored\. All \d+ blobs are in files: set BLOBS=files\. What was revoked, .* before you start the service, .* rotate-identity-key --revoke-old /i,
    },
    restored.stderr,
  );
  const again = await startServiceFixture(t, { DATA_DIR: elsewhere });
  const workshopAgain = workshop.in(again);
  t.same(await workshopAgain.look(), facts);
  t.equal(await workshopAgain.prompt(), 'Be brief. warm k3y');
  t.equal((await again.call('GET', '/api/me', undefined, service.token)).status, 200, 'tokens from before are good');
  t.equal(await workshopAgain.publish('2.0.0'), 201, 'what came after the backup is not there');
  t.equal(readFileSync(join(elsewhere, 'workspaces', 'a', 'notes.txt'), 'utf8'), 'rye');
  t.throws(() => statSync(join(elsewhere, 'workspaces', 'a', 'link')), 'links are left out');
  again.kill('SIGTERM');
  await again.exited;

  // A key that was revoked since the backup is valid in it.
  t.match(await operator({ DATA_DIR: elsewhere }, 'rotate-identity-key', '--revoke-old'), {
    code: 0,
    stdout: /^New tokens are signed/,
  });
  const { verify } = await openVerifier({ DATA_DIR: elsewhere, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  await t.rejects(verify(service.token), { name: 'InvalidTokenError' }, 'it is revoked without a start');
  await t.resolves(verify(await (await openIssuer(elsewhere)).issue('local')), 'a token of the new key');
});

t.test('a damaged backup is refused before anything is touched', async (t) => {
  const { size } = statSync(file);
  const bytes = readFileSync(file);
  const path = join(folder, 'damaged');
  const refused = async (name: string, damage: (path: string) => void): Promise<void> => {
    copyFileSync(file, path);
    damage(path);
    const DATA_DIR = join(folder, `for ${name}`);
    t.match(
      await operator({ DATA_DIR }, 'restore', path),
      { code: 1, stdout: '', stderr: /damaged|not a backup/ },
      name,
    );
    t.throws(() => statSync(DATA_DIR), name);
  };
  t.match(await operator({ DATA_DIR: join(folder, 'new') }, 'restore', folder), {
    code: 1,
    stderr: `${folder} cannot be read (EISDIR).\n`,
  });
  await refused('cut off', (path) => truncateSync(path, size - 1_000));
  await refused('half of it', (path) => truncateSync(path, Math.floor(size / 2)));
  // Files are in it as they are; a byte between two entries may be any without harm.
  for (const content of ['rye', 'Writes down every event']) {
    await refused(`a byte of “${content}”`, (path) => {
      const changed = Buffer.from(bytes);
      const at = changed.indexOf(content);
      t.ok(at > 0);
      changed[at] = (changed[at] ?? 0) ^ 0xff;
      writeFileSync(path, changed);
    });
  }
  await refused('something else', (path) => writeFileSync(path, 'not a zip'));
});
