/** The records of keys name those that a start needs, also when the database's clock was wrong. */
import { randomBytes } from 'node:crypto';
import { cp } from 'node:fs/promises';
import t from 'tap';
import { recordMember, requireCluster } from '../../../db/cluster/cluster-record.ts';
import { openKeyFiles } from '../../../db/files/key-files.ts';
import { openIssuer } from '../../../service/identity/tokens.ts';
import { parseSettings, sharedSettings } from '../../../service/settings/settings.ts';
import { describeMember } from '../../../service/storage/membership.ts';
import { operator } from '../../deploy/operator-command.ts';
import { temporaryFolder, testDatabase } from '../../runner/harness.ts';

t.test('after a revocation a start needs no removed key, though it has the newest record', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  const member = await describeMember(pool, parseSettings(sharedSettings, env));
  await openIssuer(env.DATA_DIR);
  await recordMember(pool, member);
  await pool.query(`UPDATE recorded_keys SET recorded_at = now() + interval '1 hour'`);
  const rotated = await operator(env, 'rotate-identity-key', '--revoke-old', '--json');
  const { keyId } = JSON.parse(rotated.stdout);
  t.same([...(await openKeyFiles(env.DATA_DIR).list('identity')).keys()], [keyId], rotated.stderr);
  await t.resolves(requireCluster(pool, member));
  t.same((await pool.query('SELECT id FROM recorded_keys')).rows, [{ id: keyId }]);
});

t.test('without a revocation the records of older keys stay', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  await openIssuer(env.DATA_DIR);
  await recordMember(pool, await describeMember(pool, parseSettings(sharedSettings, env)));
  t.match(await operator(env, 'rotate-identity-key'), { code: 0 });
  t.equal((await pool.query('SELECT FROM recorded_keys')).rowCount, 2);
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
