/** The records of keys name those that a start needs, also when the database's clock was wrong. */
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
