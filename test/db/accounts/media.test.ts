/** Those that take a media file, release it or delete its holders at the same moment neither lose a file nor deadlock. */
import t from 'tap';
import { findMedia, holdMedia, releaseMedia, releaseMediaOfSession, saveMedia } from '../../../db/accounts/media.ts';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { deleteWithSessions } from '../../../db/sessions/session-removal.ts';
import { clearSession, createSession } from '../../../db/sessions/sessions.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { during } from '../../fixtures/lock-waits.ts';
import { testDatabase } from '../../runner/harness.ts';

const { pool } = await testDatabase(t);
const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
t.teardown(() => queues.stop());
const accountId = 'a';
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);

let installations = 0;
async function install(): Promise<string> {
  installations += 1;
  const installationId = `i${installations}`;
  await insertBareInstallation(pool, { accountId, pluginId: `p${installations}`, installationId });
  return installationId;
}
const startSession = async (): Promise<string> =>
  (await createSession(pool, { accountId, agentId: 'g', agentName: 'G', channelId: null })).id;
const uninstall = async (installationId: string): Promise<void> => {
  await pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [installationId]);
  await removeInstallation(pool, queues, installationId);
};
/** Saves the same bytes for each holder. @returns their id */
async function save(sha256: string, ...holders: Parameters<typeof saveMedia>[1]['holder'][]): Promise<string> {
  let id = '';
  for (const holder of holders) {
    const media = { accountId, holder, sha256, sizeBytes: 1, mediaType: 'text/plain', name: null };
    id = (await saveMedia(pool, media, { bytes: 1_000, files: 10 }))?.id ?? '';
  }
  return id;
}

t.test('a file stays that a session takes while its last other holder releases it', async (t) => {
  const session = await startSession();
  const releases: Readonly<Record<string, (installationId: string, id: string) => Promise<unknown>>> = {
    'host.media.remove': (installationId, id) => releaseMedia(pool, { accountId, installationId, id }),
    uninstall: (installationId) => uninstall(installationId),
  };
  for (const [name, release] of Object.entries(releases)) {
    const installationId = await install();
    const id = await save(name, { installationId });
    await during(
      pool,
      (tx) => holdMedia(tx, { accountId, sessionId: session }, [id]),
      () => release(installationId, id),
    );
    t.match(await findMedia(pool, accountId, id), { id }, name);
    t.equal((await pool.query('SELECT 1 FROM media_holders WHERE media_id = $1', [id])).rowCount, 0);
  }
});

t.test('a file is put for an installation that is being removed', async (t) => {
  const [leaving, staying] = [await install(), await install()];
  const id = await save('put', { installationId: staying });
  await during(
    pool,
    (tx) => tx.query('SELECT 1 FROM media WHERE id = $1 FOR UPDATE', [id]),
    () => save('put', { installationId: leaving }),
    () => uninstall(leaving),
  );
  t.match(await findMedia(pool, accountId, id), { id });
});

t.test('a file is put for a session that is being deleted', async (t) => {
  const [leaving, staying] = [await startSession(), await startSession()];
  const id = await save('again', { sessionId: leaving }, { sessionId: staying });
  await during(
    pool,
    (tx) => tx.query('SELECT 1 FROM media WHERE id = $1 FOR UPDATE', [id]),
    () => save('again', { sessionId: leaving }),
    () => pool.query('DELETE FROM sessions WHERE id = $1', [leaving]),
  );
  t.match(await findMedia(pool, accountId, id), { id });
});

t.test('a session takes a file of its own while it is being deleted', async (t) => {
  const sessionId = await startSession();
  const id = await save('own', { sessionId });
  await during(
    pool,
    (tx) => tx.query('SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE', [sessionId]),
    () => pool.query('DELETE FROM sessions WHERE id = $1', [sessionId]),
    () => holdMedia(pool, { accountId, sessionId }, [id]),
  );
  t.equal(await findMedia(pool, accountId, id), null, 'the file is gone with its last holder');
});

t.test('a session takes a file of its own while it is being cleared', async (t) => {
  const sessionId = await startSession();
  const id = await save('cleared', { sessionId });
  await during(
    pool,
    (tx) => tx.query('SELECT 1 FROM media WHERE id = $1 FOR UPDATE', [id]),
    () => holdMedia(pool, { accountId, sessionId }, [id]),
    () =>
      inTransaction(pool, async (tx) => {
        await clearSession(tx, sessionId);
        await releaseMediaOfSession(tx, sessionId);
      }),
  );
  t.equal(await findMedia(pool, accountId, id), null, 'the file is gone with its last holder');
});

t.test('a session takes files of sessions that are being deleted', async (t) => {
  const [saving, taking] = [await startSession(), await startSession()];
  // The sessions are deleted in the order of their ids, and release their files in another order than that of the ids.
  const [first = '', second = ''] = [await startSession(), await startSession()].sort();
  const ids = [await save('one', { sessionId: saving }), await save('two', { sessionId: saving })].sort();
  const [lower = '', upper = ''] = ids;
  const hold = 'INSERT INTO session_media (session_id, media_id) VALUES ($1, $2)';
  await pool.query(hold, [first, upper]);
  await pool.query(hold, [second, lower]);
  await pool.query('DELETE FROM session_media WHERE session_id = $1', [saving]);
  const leaving = {
    accountId,
    lock: async () => true,
    listSessions: async () => [first, second],
    delete: async () => undefined,
  };
  await during(
    pool,
    (tx) => tx.query('SELECT 1 FROM media WHERE id = $1 FOR UPDATE', [lower]),
    () => holdMedia(pool, { accountId, sessionId: taking }, ids),
    () => deleteWithSessions(pool, queues, leaving),
  );
  for (const id of ids) t.match(await findMedia(pool, accountId, id), { id });
  t.equal((await pool.query('SELECT 1 FROM sessions WHERE id = ANY ($1)', [[first, second]])).rowCount, 0);
});
