/** A start with keys, blobs or a release that are not those of the database's cluster is refused in one sentence and changes nothing. */
import { randomBytes } from 'node:crypto';
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { recordMember, requireCluster } from '../../db/cluster/cluster-record.ts';
import { announceProcess } from '../../db/cluster/running-processes.ts';
import { openListener } from '../../db/postgres/listener.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { issueToken } from '../../deploy/issue-token.ts';
import { openIssuer, openVerifier } from '../../service/identity/tokens.ts';
import { RELEASE } from '../../service/settings/release.ts';
import { parseSettings, sharedSettings } from '../../service/settings/settings.ts';
import { describeMember } from '../../service/storage/membership.ts';
import { startApiFixture } from '../api/api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL } from '../api/package/packages.ts';
import { forkProcess } from '../fixtures/forked-process.ts';
import { startObjectStore } from '../object-store/object-store.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { amount } from '../runner/soak.ts';
import { operator } from './operator-command.ts';
import {
  type Environment,
  type ServiceFixture,
  startApiAlone,
  startApiAndSupervisor,
  startOnly,
} from './service-fixture.ts';
import { buildWorkshop } from './workshop.ts';

const WITNESS = {
  ...MINIMAL,
  'readme.md': '---\nname: Witness\ndescription: A test\nsecrets: { key: { label: Key } }\n---\n',
};
const API_MAIN = fileURLToPath(new URL('../../api/main.ts', import.meta.url));
const isLong = amount({ quick: false, soak: true });
const { pool: recorded, url: DATABASE_URL } = await testDatabase(t);
const env = { DATABASE_URL, DATA_DIR: await temporaryFolder(t) };
const published = await publishWitness();
// As the start of a service does, which has made its keys.
await recordMember(recorded, await describeMember(recorded, parseSettings(sharedSettings, env)));

/** Leaves a plugin with a secret, as a service does. @returns the plugin with the texts of its files */
async function publishWitness(): Promise<unknown> {
  const beside = { pool: recorded, dataDir: env.DATA_DIR };
  const { user } = await startApiFixture(t, { beside, introspect: introspectsMinimal });
  const local = await user('local');
  const { id } = (await local.post('/plugins', { slug: 'witness', displayName: 'Witness' })).body;
  await local.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(WITNESS) });
  const installed = await local.post('/installations', { slug: 'witness' });
  await local.post(`/installations/${installed.body.id}/configure`, { secrets: { key: 'k3y' } });
  return (await local.get(`/plugins/${id}?includeFiles=true`)).body;
}

/** The plugin with the texts of its files. */
async function readPackage({ call }: Pick<ServiceFixture, 'call'>): Promise<unknown> {
  const { body } = await call('GET', '/api/plugins');
  return (await call('GET', `/api/plugins/${body.items[0].id}?includeFiles=true`)).body;
}

async function copyDataDir(): Promise<string> {
  const folder = join(await temporaryFolder(t), 'data');
  await cp(env.DATA_DIR, folder, { recursive: true });
  return folder;
}
const secretsFolder = (dataDir: string): string => join(dataDir, 'keys', 'secrets');

interface Fault {
  readonly name: string;
  readonly sentence: RegExp;
  /** @returns the environment of the start */
  make(): Promise<{ readonly DATA_DIR: string; readonly DATABASE_URL?: string; readonly BLOBS?: string }>;
}
const LACKS = /^DATA_DIR \S+ lacks keys that this database uses \([0-9a-f, -]+\): set DATA_DIR .*accept-data-dir\.$/;
const faults: readonly Fault[] = [
  {
    name: 'an empty folder',
    sentence: LACKS,
    make: async () => ({ DATA_DIR: await temporaryFolder(t) }),
  },
  {
    name: 'the key that signs tokens is gone',
    sentence: LACKS,
    async make() {
      const DATA_DIR = await copyDataDir();
      await rm(join(DATA_DIR, 'keys', 'identity.jwk.json'));
      return { DATA_DIR };
    },
  },
  {
    name: 'the keys that seal secrets are gone',
    sentence: LACKS,
    async make() {
      const DATA_DIR = await copyDataDir();
      await rm(secretsFolder(DATA_DIR), { recursive: true });
      return { DATA_DIR };
    },
  },
  {
    name: 'a key has another content',
    sentence:
      /^DATA_DIR \S+ has another key under the id \S+ than this database recorded: restore .*accept-data-dir\.$/,
    async make() {
      const DATA_DIR = await copyDataDir();
      const [name = ''] = await readdir(secretsFolder(DATA_DIR));
      await writeFile(join(secretsFolder(DATA_DIR), name), Buffer.alloc(32).toString('base64'));
      return { DATA_DIR };
    },
  },
  {
    name: 'the packages are gone',
    sentence: /^DATA_DIR \S+ has no packages, but this database names some: .*accept-data-dir\.$/,
    async make() {
      const DATA_DIR = await copyDataDir();
      await rm(join(DATA_DIR, 'blobs'), { recursive: true });
      return { DATA_DIR };
    },
  },
  {
    name: 'the packages of another cluster',
    sentence:
      /^DATA_DIR \S+ holds the packages of another cluster \(elsewhere, not [0-9a-f-]{36}\): set DATA_DIR and DATABASE_URL .*accept-data-dir\.$/,
    async make() {
      const DATA_DIR = await copyDataDir();
      await writeFile(join(DATA_DIR, 'blobs', 'cluster'), 'elsewhere');
      return { DATA_DIR };
    },
  },
  {
    name: 'another blob store than that of the cluster',
    sentence:
      /^The blobs of this cluster are in files, not in database: set BLOBS=files, or stop the service and run npm run -s operator -- move-blobs\.$/,
    make: async () => ({ DATA_DIR: await copyDataDir(), BLOBS: 'database' }),
  },
  {
    name: 'an empty database',
    sentence: /^DATA_DIR \S+ holds packages, but this database is empty: set DATABASE_URL .*accept-data-dir\.$/,
    make: async () => ({ DATA_DIR: await copyDataDir(), DATABASE_URL: (await testDatabase(t)).url }),
  },
];

/** As each process does before it opens keys and blobs. */
async function compareWithCluster(wrong: Environment): Promise<void> {
  const onError = () => undefined;
  const { pool, close } = openPool(wrong.DATABASE_URL ?? '', { name: 'test', connections: 1, onError });
  try {
    await requireCluster(pool, await describeMember(pool, parseSettings(sharedSettings, wrong)));
  } finally {
    await close();
  }
}
const refusal = async (wrong: Environment): Promise<string> => {
  const error = await compareWithCluster(wrong).catch((error: unknown) => error);
  return error instanceof Error && error.name === 'ClusterMismatchError' ? error.message : `not refused: ${error}`;
};
const withoutLog = (stderr: string): string => stderr.replaceAll(/^\{.*\n/gm, '');
const listKeys = (dataDir: string): Promise<string[]> =>
  readdir(join(dataDir, 'keys'), { recursive: true }).then(
    (names) => names.sort(),
    () => [],
  );

for (const { name, sentence, make } of faults)
  t.test(`refused: ${name}`, async (t) => {
    const wrong = { ...env, ...(await make()) };
    const before = await listKeys(wrong.DATA_DIR);
    t.match(await refusal(wrong), sentence);
    t.same(await listKeys(wrong.DATA_DIR), before, 'no key is made');
  });

t.test('a refused start says why, ends with code 1 and makes no key', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  await t.rejects(forkProcess(t, API_MAIN, { ...env, DATA_DIR }, 'SIGKILL'), {
    message: `${API_MAIN} did not start: ${await refusal({ ...env, DATA_DIR })}`,
  });
  t.same(await listKeys(DATA_DIR), []);
  if (!isLong) return;
  const { code, stdout, stderr } = await (await startOnly({ ...env, DATA_DIR })).exited;
  t.equal(code, 1);
  t.equal(withoutLog(stderr), `${await refusal({ ...env, DATA_DIR })}\n`);
  t.notMatch(stdout, 'bulkhead ready');
  t.same(await listKeys(DATA_DIR), []);
});

t.test('a database without tables is named, with the command that makes them', async (t) => {
  const { url, pool } = await testDatabase(t);
  await pool.query('DROP TABLE migrations');
  await t.rejects(compareWithCluster({ DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) }), {
    message: /The database has no tables yet: run sh deploy\/node\.sh deploy\/migrate\.ts /,
  });
});

t.test('of two newer releases, the next one may run beside this one', async (t) => {
  const { pool, close } = openPool(env.DATABASE_URL ?? '', { name: 'test', connections: 1, onError: () => undefined });
  t.teardown(close);
  await pool.query(`INSERT INTO migrations (name, run_on) VALUES ('9000_next', now())`);
  await t.resolves(compareWithCluster(env));
  await pool.query(`INSERT INTO migrations (name, run_on) VALUES ('9001_after', now() + interval '1 second')`);
  await pool.query(`UPDATE cluster SET release = '99.0.0'`);
  t.equal(
    await refusal(env),
    `This is release ${RELEASE}, but release 99.0.0 has migrated the database (9000_next, 9001_after): start that release, or restore a backup of this one.`,
  );
  await pool.query(`DELETE FROM migrations WHERE name LIKE '9%'`);
});

t.test('blobs move to a bucket and on to the database, which needs no folder of blobs', async (t) => {
  const { settings: bucket, countObjects, intercept } = await startObjectStore(t);
  const DATA_DIR = await copyDataDir();
  const inFiles = { ...env, ...bucket, DATA_DIR, BLOBS: 'files' };
  t.match(await operator(inFiles, 'move-blobs', 'nowhere'), {
    code: 2,
    stderr: /^The store must be files, database or/,
  });
  const { pool, session, close } = openPool(DATABASE_URL, { name: 'test', connections: 2, onError: () => undefined });
  const listener = await openListener(pool, () => undefined, session);
  // As each API and each supervisor does.
  await announceProcess(listener);
  t.match(await operator(inFiles, 'move-blobs', bucket.BLOBS), {
    code: 1,
    stderr: /^An API or a supervisor runs, .*: stop the service on all machines, then run this again\.\n$/,
  });
  t.equal(await countObjects(), 0);
  await listener.close();
  const resize = (bytes: string) =>
    pool.query(`UPDATE version_files SET size_bytes = size_bytes + $1 WHERE path = 'readme.md'`, [bytes]);
  await resize('300000000');
  t.match(await operator(inFiles, 'move-blobs', 'database'), {
    code: 1,
    stderr: /^The file readme\.md of \S+ \S+ has 300\d+ bytes\. In the database, a file may have at most 134217728/,
  });
  await resize('-300000000');
  await close();
  const moved = await operator(inFiles, 'move-blobs', bucket.BLOBS);
  t.match(moved, {
    code: 0,
    stdout: /^\d+ blobs are in s3:\/\/packages\/one\/cluster now\. Set BLOBS=s3:.* The files in DATA_DIR\/blobs stay: /,
  });
  t.ok((await countObjects()) > 0);
  const inBucket = { ...inFiles, BLOBS: bucket.BLOBS };
  const file = join(await temporaryFolder(t), 'bulkhead.backup');
  t.match(await operator(inBucket, 'backup', file, '--check'), {
    code: 0,
    stdout: /It does not hold the blobs: they are in s3:\S+, which must keep .* and \d+ blobs were read\.\n$/,
  });
  await t.test('a backup is restored beside the bucket', async (t) => {
    const there = { ...inBucket, DATABASE_URL: (await testDatabase(t)).url, DATA_DIR: await temporaryFolder(t) };
    t.match(await operator(there, 'restore', file), {
      code: 0,
      stdout: /are restored\. All \d+ blobs are in s3:\S+: set BLOBS=s3:\S+\. What was revoked, /,
    });
    if (isLong) t.same(await readPackage(await startApiAlone(t, there)), published);
  });
  let hidden: string | null = null;
  intercept(({ method, path }) => {
    if (method !== 'GET' || !path.includes('/blobs/')) return null;
    hidden ??= path;
    return path === hidden ? { status: 404, body: '<Code>NoSuchKey</Code>' } : null;
  });
  t.match(await operator(inBucket, 'check-backup', file), {
    code: 1,
    stderr: /1 of \d+ blobs are missing or damaged in s3:\S+, such as [0-9a-f]{64}: restore them from/,
  });
  intercept(() => null);
  const objects = await countObjects();
  t.match(await operator(inBucket, 'move-blobs', 'database'), {
    code: 0,
    stdout: /blobs are in database now.* The objects in s3:\S+ stay, but Bulkhead no longer names or removes them: /,
  });
  t.equal(await countObjects(), objects);
  const inDatabase = { ...env, DATA_DIR, BLOBS: 'database' };
  const already = [
    [inDatabase, 'database', /^The blobs are in database already\.\n$/],
    [inFiles, 'files', /^The blobs of this cluster are in database, not in files: set BLOBS=database, /],
  ] as const;
  for (const [settings, store, stderr] of already)
    t.match(await operator(settings, 'move-blobs', store), { code: 1, stderr });
  if (isLong)
    t.match(await operator(inDatabase, 'backup', join(DATA_DIR, 'database.backup'), '--check'), {
      code: 0,
      stdout: / and the keys to its secrets\. A test restore .* and \d+ blobs were read\.\n$/,
    });
  await rm(join(DATA_DIR, 'blobs'), { recursive: true });
  await t.test('a move from the database that is cut off leaves it complete, and is repeated', async (t) => {
    const both = { ...inBucket, BLOBS: 'database' };
    let sent = 0;
    intercept(({ method, path }) => {
      if (method !== 'PUT' || !path.includes('/blobs/')) return null;
      sent += 1;
      return sent === 1 ? null : { status: 403, body: '<Code>AccessDenied</Code>' };
    });
    t.match(await operator(both, 'move-blobs', bucket.BLOBS), { code: 1, stderr: /refused to .*: status 403/ });
    t.equal(sent, 2);
    intercept(() => null);
    await rm(join(DATA_DIR, 'blob-cache'), { recursive: true, force: true });
    if (isLong) {
      const between = await startApiAlone(t, { DATABASE_URL, DATA_DIR, BLOBS: 'database' });
      t.same(await readPackage(between), published, 'the API needs the database only');
      await between.stop();
    }
    t.match(await operator(both, 'move-blobs', bucket.BLOBS), {
      code: 0,
      stdout: / copies in the database were removed/,
    });
    const { pool, close } = openPool(DATABASE_URL, { name: 'test', connections: 1, onError: () => undefined });
    t.teardown(close);
    t.equal((await pool.query('SELECT FROM stored_blobs WHERE content IS NOT NULL')).rowCount, 0);
    await rm(join(DATA_DIR, 'blob-cache'), { recursive: true });
    t.match(await operator(inBucket, 'move-blobs', 'database'), { code: 0 });
  });
  t.match(await operator({ ...env, DATA_DIR, BLOBS: 'database' }, 'move-blobs', 'files'), {
    code: 0,
    stdout: / The copies in the database were removed\.\n$/,
  });
});

t.test('with the key of the cluster a second machine needs the database only', async (t) => {
  const DATA_DIR = join(await temporaryFolder(t), 'data');
  const CLUSTER_KEY = randomBytes(32).toString('base64');
  // Keys of a machine that was alone are sealed into the database.
  await openIssuer(DATA_DIR);
  const withKey = { BLOBS: 'database', CLUSTER_KEY };
  const first = await startApiAndSupervisor(t, { ...withKey, DATA_DIR });
  const shared = { ...withKey, DATABASE_URL: first.env.DATABASE_URL ?? '' };
  const made = await buildWorkshop(first);
  const answer = await made.prompt();
  const backups = await temporaryFolder(t);
  t.match(await operator({ ...shared, DATA_DIR }, 'backup', join(backups, 'both'), '--check'), {
    code: 0,
    stdout:
      /secrets, sealed under the key of the cluster\. Warning: it also has the unsealed keys of DATA_DIR\/keys, .* decrypted 1 secrets/,
  });
  await rm(join(DATA_DIR, 'keys'), { recursive: true });
  t.match(await operator({ ...shared, DATA_DIR }, 'backup', join(backups, 'sealed')), {
    code: 0,
    stdout: / and the keys to its secrets, sealed under the key of the cluster\.\n$/,
  });
  const machines: Pick<ServiceFixture, 'call'>[] = [first];
  if (isLong) {
    const { call } = await startApiAlone(t, { ...shared, DATA_DIR: join(await temporaryFolder(t), 'data') });
    const second: Pick<ServiceFixture, 'call'> = {
      call: (method, path, body) => call(method, path, body, first.token),
    };
    t.same(await readPackage(second), await readPackage(first));
    machines.push(second);
  }
  t.match(await operator({ ...shared, DATA_DIR }, 'rotate-identity-key'), {
    code: 0,
    stdout: /^New tokens are signed/,
  });
  const env2 = { ...shared, DATA_DIR: join(await temporaryFolder(t), 'data') };
  const token = await issueToken(['local'], () => env2);
  for (const { call } of machines) t.match(await call('GET', '/api/me'), { status: 200 }, 'a token of the old key');
  t.match(await first.call('GET', '/api/me', undefined, token), { status: 200 }, 'a token of the new key');
  t.match(await operator(env2, 'rotate-key'), {
    code: 0,
    stdout: /encrypted 1 secrets with it\. .* stay in the database/,
  });
  t.equal(await made.prompt(), answer, 'the secret is opened with the new key');
  await first.stop();
  t.match(
    await refusal({ ...env2, CLUSTER_KEY: randomBytes(32).toString('base64') }),
    /^The cluster key that is set \(fingerprint [0-9a-f]{16}\) is not that of this cluster \(fingerprint [0-9a-f]{16}\): set CLUSTER_KEY_FILE, /,
  );
  t.match(
    await refusal({ ...env2, CLUSTER_KEY: '' }),
    /^The keys of this cluster are sealed in its database: set CLUSTER_KEY_FILE, /,
  );
  const file = join(await temporaryFolder(t), 'new.key');
  await writeFile(file, `${randomBytes(32).toString('base64')}\n`);
  const current = join(await temporaryFolder(t), 'current.key');
  await writeFile(current, `${env2.CLUSTER_KEY}\n`);
  t.match(await operator(env2, 'change-cluster-key', current), {
    code: 1,
    stderr: /holds the current key of the cluster/,
  });
  t.match(await operator(env2, 'change-cluster-key', file), {
    code: 0,
    stdout: /^4 keys are sealed under the new key\..* Keep the old key/,
  });
  t.match(await refusal(env2), /^The cluster key that is set .* is not that of this cluster/);
  const backup = join(await temporaryFolder(t), 'file.backup');
  const changed = { ...env2, CLUSTER_KEY: '', CLUSTER_KEY_FILE: file };
  t.match(await operator(changed, 'backup', backup, '--check'), { code: 0, stdout: /decrypted 1 secrets/ });
  t.match(await operator(env2, 'check-backup', backup), {
    code: 1,
    stderr: /^The keys of the backup are sealed: set/m,
  });
});

t.test(
  'before any process has started with a cluster key, a backup is checked with one, and no key is sealed',
  async (t) => {
    const file = join(await temporaryFolder(t), 'file.backup');
    const withKey = { ...env, CLUSTER_KEY: randomBytes(32).toString('base64') };
    t.match(await operator(withKey, 'backup', file), { code: 0, stdout: / and the keys to its secrets\.\n$/ });
    t.match(await operator(withKey, 'check-backup', file), {
      code: 0,
      stdout: /files and 1 secrets, which could be decrypted/,
    });
    t.match(await operator(withKey, 'move-blobs', 'database'), {
      code: 1,
      stderr: /^This command has a cluster key, but no process of this database has started with one/,
    });
  },
);

t.test('lost keys are accepted, and secrets open again when their key comes back', async (t) => {
  const DATA_DIR = await copyDataDir();
  const [name = ''] = await readdir(secretsFolder(DATA_DIR));
  const lost = await readFile(join(secretsFolder(DATA_DIR), name));
  await rm(join(DATA_DIR, 'keys'), { recursive: true });
  const lostEnv = { ...env, DATA_DIR };
  t.match(await operator(env, 'accept-data-dir', '--yes'), { code: 0, stdout: /There is nothing to accept/ });
  const { pool, close } = openPool(DATABASE_URL, { name: 'test', connections: 1, onError: () => undefined });
  t.teardown(close);
  // As the login of a host that was sealed with the same key.
  await pool.query(`INSERT INTO ssh_hosts (account_id, id, revision, name, address, port, user_name, host_keys, login, key_id, sealed)
    SELECT i.account_id, 'build', '1', 'b', 'b', 22, 'u', '{}', 'password', s.key_id, ''
      FROM installation_secrets s JOIN installations i ON i.id = s.installation_id`);
  t.match(await operator(lostEnv, 'accept-data-dir'), {
    code: 1,
    stderr:
      /^DATA_DIR \S+ lacks keys .* from a backup\. If the .* --yes: 2 secrets can then not be opened, .* Nothing was changed\.\n\nACCOUNT +PLUGIN +SECRET\n/m,
  });
  const mark = join(DATA_DIR, 'blobs', 'cluster');
  const own = await readFile(mark);
  await writeFile(mark, 'elsewhere');
  t.match(await operator(lostEnv, 'accept-data-dir'), {
    stderr:
      /lacks keys .* holds the packages of another cluster .* If the .* files there that this database does not name are deleted\. Nothing/,
  });
  await writeFile(mark, own);
  t.match(await operator(lostEnv, 'accept-data-dir', '--limit', '1'), { stderr: /\n1 more: set --limit\.\n$/ });
  await pool.query('ALTER TABLE operator_actions ADD CONSTRAINT fault CHECK (false) NOT VALID');
  t.match(await operator(lostEnv, 'accept-data-dir', '--yes'), { code: 1 }, 'nothing is accepted without a record');
  await pool.query('ALTER TABLE operator_actions DROP CONSTRAINT fault');
  t.match(await operator(lostEnv, 'accept-data-dir', '--yes'), {
    code: 0,
    stdout:
      /belongs to this database now\. 2 secrets cannot be opened [\s\S]*\nlocal +\S+ +\S+\nlocal +- +login of the SSH host build\n$/,
  });
  await pool.query('DELETE FROM ssh_hosts');
  t.match(await operator(lostEnv, 'accept-data-dir'), {
    code: 0,
    stdout: /nothing was changed\. 1 secrets cannot be opened .*\n\nACCOUNT +PLUGIN +SECRET\nlocal +\S+ +\S+\n$/,
  });
  const { verify } = await openVerifier({ DATA_DIR, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  await t.resolves(verify(await (await openIssuer(DATA_DIR)).issue('local')));
  await t.rejects(verify(await (await openIssuer(env.DATA_DIR)).issue('local')), { name: 'InvalidTokenError' });
  // In its place, a quick run has the announcement that each API makes.
  const again = isLong ? await startApiAlone(t, { DATABASE_URL, DATA_DIR }) : null;
  const listener = isLong ? null : await openListener(pool, () => undefined);
  if (listener !== null) await announceProcess(listener);
  const wrong = { ...env, DATA_DIR: await temporaryFolder(t) };
  const refused = await operator(wrong, 'accept-data-dir', '--yes');
  t.match(refused, { code: 1, stderr: /^An API or a supervisor runs / }, 'an API alone is enough');
  await listener?.close();
  const leftOut = /1 secrets whose keys were given up .* were left out/;
  t.match(await operator(lostEnv, 'rotate-key'), { code: 0, stdout: leftOut });
  const backup = join(await temporaryFolder(t), 'file.backup');
  t.match(await operator(lostEnv, 'backup', backup, '--check'), { code: 0, stdout: leftOut });
  if (isLong) t.match(await operator(lostEnv, 'check-backup', backup), { code: 0, stdout: leftOut });
  await writeFile(join(secretsFolder(DATA_DIR), name), lost);
  await t.resolves(compareWithCluster(lostEnv), 'a start with it is not refused');
  t.match(await operator(lostEnv, 'rotate-key'), { code: 0, stdout: /encrypted 1 secrets with it/ });
  if (again !== null) t.match(await again.call('GET', '/api/me'), { status: 200 });
});
