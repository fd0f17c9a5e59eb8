/** The records of keys name those that a start needs, also when the database's clock was wrong. */
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { copyFile, cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { importJWK, SignJWT } from 'jose';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { createSession } from '../../../db/accounts/console-sessions.ts';
import { recordMember, requireCluster } from '../../../db/cluster/cluster-record.ts';
import { createKeyId, openKeyFiles } from '../../../db/files/key-files.ts';
import { openSealedKeys } from '../../../db/files/sealed-keys.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import {
  issueSignInLink,
  openConsoleSessions,
  sessionCredential,
  withConsoleSessions,
} from '../../../service/identity/console-sessions.ts';
import { SignIn } from '../../../service/identity/sign-in.ts';
import { InvalidTokenError, openIssuer, openVerifier } from '../../../service/identity/tokens.ts';
import { parseSettings, sharedSettings } from '../../../service/settings/settings.ts';
import { describeMember } from '../../../service/storage/membership.ts';
import { operator } from '../../deploy/operator-command.ts';
import { mountSmallDisk, NO_DISK } from '../../fixtures/small-disk.ts';
import { temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { listCases, soakTest } from '../../runner/soak.ts';

const PLACE_KEYS = fileURLToPath(new URL('../../../deploy/place-keys.ts', import.meta.url));

t.test('after a revocation a start needs no removed key, though it has the newest record', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  const member = await describeMember(pool, parseSettings(sharedSettings, env));
  await openIssuer(env.DATA_DIR);
  await recordMember(pool, member);
  await pool.query(`UPDATE recorded_keys SET recorded_at = now() + interval '1 hour'`);
  await pool.query('ALTER TABLE operator_actions ADD CONSTRAINT fault CHECK (false)');
  t.match(await operator(env, 'rotate-identity-key', '--revoke-old'), { code: 1 });
  t.equal(
    (await pool.query('SELECT FROM revoked_keys')).rowCount,
    0,
    'nothing is revoked that the list of actions lacks',
  );
  await pool.query('ALTER TABLE operator_actions DROP CONSTRAINT fault');
  const rotated = await operator(env, 'rotate-identity-key', '--revoke-old', '--json');
  const { keyId } = JSON.parse(rotated.stdout);
  t.same([...(await openKeyFiles(env.DATA_DIR).list('identity')).keys()], [keyId], rotated.stderr);
  await t.resolves(requireCluster(pool, member));
  t.same((await pool.query('SELECT id FROM recorded_keys')).rows, [{ id: keyId }]);
});

soakTest(t, 'without a revocation the records of older keys stay', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  await openIssuer(env.DATA_DIR);
  await recordMember(pool, await describeMember(pool, parseSettings(sharedSettings, env)));
  t.match(await operator(env, 'rotate-identity-key'), { code: 0 });
  t.equal((await pool.query('SELECT FROM recorded_keys')).rowCount, 2);
});

t.test('a revocation ends what began with tokens of the key, also in a process that still has the key', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  const settings = parseSettings(sharedSettings, env);
  const { issue } = await openIssuer(env.DATA_DIR);
  const member = await describeMember(pool, settings);
  await recordMember(pool, member);
  const listener = await openListener(pool, (error) => t.error(error));
  t.teardown(() => listener.close());
  // By this clock, the process does not read its keys again.
  const tokens = await openVerifier(settings, () => 0, member.keys);
  const signIn = new SignIn(pool, withConsoleSessions(pool, tokens));
  const following = await signIn.follow(listener);
  t.teardown(() => following.close());
  const sessions = openConsoleSessions({ pool, tokens, signIn, consoleClient: null, lifetimeMs: 3_600_000 });
  const begin = async (token: string) => sessionCredential((await sessions.start(token)).secret);

  const [[keyId, content] = ['', Buffer.of()]] = await member.keys.list('identity');
  const token = await issue('ann');
  const withoutKeyId = await new SignJWT({ sub: 'ann', iss: 'bulkhead', aud: 'bulkhead' })
    .setProtectedHeader({ alg: 'EdDSA' })
    .setExpirationTime('1y')
    .sign(await importJWK(JSON.parse(content.toString('utf8')), 'EdDSA'));
  const ofOlderRelease = await begin(token);
  await pool.query('UPDATE console_sessions SET key_id = NULL');
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  const link = new URL(await issueSignInLink(pool, accountId, 'http://localhost'));
  const { id: otherId } = await findOrCreateAccount(pool, 'zoe', 'https://issuer.example');
  const expiresAt = new Date(Date.now() + 3_600_000);
  const store = (id: string, account: string, key: string | null) =>
    createSession(pool, {
      id: createHash('sha256').update(id).digest('hex'),
      accountId: account,
      tokenId: null,
      keyId: key,
      expiresAt,
    });
  await store('of an issuer', otherId, null);

  const ending = {
    token,
    withoutKeyId,
    ofToken: await begin(token),
    ofOther: await begin(withoutKeyId),
    ofOlderRelease,
  };
  const ends = Object.values(ending).map(
    (credential) => new Promise<void>((resolve) => signIn.watch(credential, () => resolve())),
  );
  for (const [name, credential] of Object.entries(ending))
    t.equal((await signIn.signIn(credential)).name, 'ann', `before: ${name}`);
  t.match(await operator(env, 'rotate-identity-key', '--revoke-old'), { code: 0 });
  await Promise.all(ends);
  t.equal((await tokens.verify(token)).keyId, keyId, 'the process still has the key');
  for (const [name, credential] of Object.entries(ending))
    await t.rejects(signIn.signIn(credential), InvalidTokenError, `after: ${name}`);
  await t.rejects(sessions.start(token), InvalidTokenError);
  await store('late', accountId, keyId);
  await t.rejects(signIn.signIn(sessionCredential('late')), /was revoked/, 'of a token that was verified just before');
  const ofIssuer = withConsoleSessions(pool, { ...tokens, issuer: 'https://issuer.example' });
  t.equal((await ofIssuer.verify(sessionCredential('of an issuer'))).subject, 'zoe');
  t.equal((await sessions.redeem(link.hash.replace('#code=', ''))).account.name, 'ann', 'a sign-in link needs no key');
});

t.test('a key file that is removed while the keys are read is left out', async (t) => {
  const folder = await temporaryFolder(t);
  const keys = openKeyFiles(folder);
  const [kept, removed] = [createKeyId([]), createKeyId([])];
  await keys.add('secrets', kept, randomBytes(32));
  // The folder lists it, and no file is found where it is read.
  await symlink('removed', join(folder, 'keys', 'secrets', `${removed}.key`));
  t.same([...(await keys.list('secrets')).keys()], [kept]);
});

t.test('a revoked key does not come back from a file that another machine has', async (t) => {
  const { url, pool } = await testDatabase(t);
  const clusterKey = randomBytes(32).toString('base64');
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t), CLUSTER_KEY: clusterKey };
  const other = { ...env, DATA_DIR: await temporaryFolder(t) };
  // As on a machine that had key files before the cluster key.
  await openIssuer(env.DATA_DIR);
  const describe = () => describeMember(pool, parseSettings(sharedSettings, env));
  const sealed = async () => [...(await (await describe()).keys.list('identity')).keys()];
  const member = await describe();
  await requireCluster(pool, member);
  await recordMember(pool, member);
  await cp(env.DATA_DIR, other.DATA_DIR, { recursive: true });
  const [old] = await sealed();
  t.ok(old);
  const rotated = await operator(env, 'rotate-identity-key', '--revoke-old', '--json');
  const { keyId } = JSON.parse(rotated.stdout);
  await requireCluster(pool, await describeMember(pool, parseSettings(sharedSettings, other)));
  t.same(await sealed(), [keyId]);
});

soakTest(t, 'a revoked key stays revoked when a Secret places its file again', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  const secret = await temporaryFolder(t);
  const settings = parseSettings(sharedSettings, env);
  const file = join(env.DATA_DIR, 'keys', 'identity.jwk.json');
  // As the init container of each pod, which has no database.
  const place = () =>
    promisify(execFile)(process.execPath, [PLACE_KEYS, secret], { cwd: '/', env: { DATA_DIR: env.DATA_DIR } });
  const token = await (await openIssuer(env.DATA_DIR)).issue('ann');
  await recordMember(pool, await describeMember(pool, settings));
  await copyFile(file, join(secret, 'identity.jwk.json'));
  let now = Date.now();
  const running = await openVerifier(settings, () => now, (await describeMember(pool, settings)).keys);
  t.equal((await running.verify(token)).subject, 'ann');
  t.match(await operator(env, 'rotate-identity-key', '--revoke-old'), {
    code: 0,
    stdout: /refused within a minute\. Delete the copies .* remove identity\.jwk\.json from that Secret\.\n$/,
  });
  t.match((await place()).stdout, /identity\.jwk\.json: placed/);
  now += 31_000;
  await t.rejects(running.verify(token), InvalidTokenError, 'by a process that runs');
  const member = await describeMember(pool, settings);
  await requireCluster(pool, member);
  await recordMember(pool, member);
  const started = await openVerifier(settings, Date.now, member.keys);
  await t.rejects(started.verify(token), InvalidTokenError, 'by a process that starts');
  t.same(await readdir(join(env.DATA_DIR, 'keys')), ['identity'], 'the start deletes its file');
  await t.resolves(requireCluster(pool, member), 'and none needs it');
});

const KEY_PLACES: Record<string, { readonly CLUSTER_KEY?: string }> = {
  'in files': {},
  'in the database': { CLUSTER_KEY: randomBytes(32).toString('base64') },
};
for (const [where, clusterKey] of listCases(KEY_PLACES, 'in files')) {
  const disk = await mountSmallDisk(t, 1);
  t.test(
    `keys ${where}: a start does not use a revoked key whose file is on a read-only disk`,
    disk === null ? { skip: NO_DISK } : {},
    async (t) => {
      if (disk === null) return;
      const { url, pool } = await testDatabase(t);
      const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t), ...clusterKey };
      await symlink(disk.folder, join(env.DATA_DIR, 'keys'));
      const describe = () => describeMember(pool, parseSettings(sharedSettings, env));
      const file = join(disk.folder, 'identity.jwk.json');
      const copy = join(await temporaryFolder(t), 'copy');
      await openIssuer(env.DATA_DIR);
      await copyFile(file, copy);
      const member = await describe();
      await requireCluster(pool, member);
      await recordMember(pool, member);
      const rotated = await operator(env, 'rotate-identity-key', '--revoke-old', '--json');
      const { keyId } = JSON.parse(rotated.stdout);
      await copyFile(copy, file);
      await promisify(execFile)('mount', ['-o', 'remount,ro', disk.folder]);
      const starting = await describe();
      await t.resolves(requireCluster(pool, starting));
      await t.resolves(recordMember(pool, starting));
      t.same([...(await starting.keys.list('identity')).keys()], [keyId]);
      t.ok((await readdir(disk.folder)).includes('identity.jwk.json'), 'the file stays');
    },
  );
}

soakTest(t, 'a process whose copy of the folder has only revoked keys accepts and signs no token', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  const other = parseSettings(sharedSettings, { ...env, DATA_DIR: await temporaryFolder(t) });
  const token = await (await openIssuer(env.DATA_DIR)).issue('ann');
  await recordMember(pool, await describeMember(pool, parseSettings(sharedSettings, env)));
  await cp(env.DATA_DIR, other.DATA_DIR, { recursive: true });
  const { keys } = await describeMember(pool, other);
  let now = Date.now();
  const { verify } = await openVerifier(other, () => now, keys);
  const { issue } = await openIssuer(other.DATA_DIR, keys);
  t.equal((await verify(token)).subject, 'ann');
  t.match(await operator(env, 'rotate-identity-key', '--revoke-old'), { code: 0 });
  now += 31_000;
  await t.rejects(verify(token), InvalidTokenError);
  await t.rejects(issue('ann'), {
    message: /keys has no key that signs tokens, or only revoked ones: copy the newest/,
  });
  const folder = (dataDir: string) => join(dataDir, 'keys', 'identity');
  t.same(await readdir(join(other.DATA_DIR, 'keys')), ['identity.jwk.json'], 'it makes no key of its own');
  await mkdir(folder(other.DATA_DIR));
  await cp(folder(env.DATA_DIR), folder(other.DATA_DIR), { recursive: true });
  now += 251;
  t.equal((await verify(await issue('bob'))).subject, 'bob', 'with the new key it needs no restart');
});

t.test('a command with a cluster key writes no key while the service uses key files', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  await openIssuer(env.DATA_DIR);
  const member = await describeMember(pool, parseSettings(sharedSettings, env));
  await recordMember(pool, member);
  const clusterKey = randomBytes(32);
  const sealing = { ...env, CLUSTER_KEY: clusterKey.toString('base64') };
  const file = join(await temporaryFolder(t), 'new.key');
  await writeFile(file, sealing.CLUSTER_KEY);
  const before = (await pool.query('SELECT * FROM recorded_keys')).rows;
  for (const command of [['rotate-key'], ['rotate-identity-key'], ['change-cluster-key', file]])
    t.match(await operator(sealing, ...command), {
      code: 1,
      stderr:
        /^This command has a cluster key, .* Start the service once with the cluster key, .* No key was sealed\.$/m,
    });
  t.match(await operator(sealing, 'accept-data-dir'), { code: 0, stdout: /and nothing was changed\.$/m });
  t.same((await pool.query('SELECT * FROM recorded_keys')).rows, before);
  await t.resolves(requireCluster(pool, member));

  // As an older release did.
  await openSealedKeys(pool, clusterKey).add('secrets', 'newest', randomBytes(32));
  await t.rejects(requireCluster(pool, member), {
    message: /lacks keys .*\(newest\), but the database has them, sealed under a cluster key: set CLUSTER_KEY_FILE, /,
  });
  const started = await describeMember(pool, parseSettings(sharedSettings, sealing));
  await requireCluster(pool, started);
  await recordMember(pool, started);
  t.match(await operator(sealing, 'rotate-identity-key'), { code: 0 }, 'after a start with the cluster key');
});

t.test('no key is made in a folder that is not that of the database', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  await openIssuer(env.DATA_DIR);
  const member = await describeMember(pool, parseSettings(sharedSettings, env));
  await recordMember(pool, member);
  const wrong = { ...env, DATA_DIR: await temporaryFolder(t) };
  for (const command of [['rotate-key'], ['rotate-identity-key', '--revoke-old']])
    t.match(await operator(wrong, ...command), { code: 1, stderr: /lacks keys that this database uses/ });
  t.same(await readdir(wrong.DATA_DIR), []);
  await t.resolves(requireCluster(pool, member));
});
