/** The ledger of bytes: after any sequence of changes it equals what the tables hold, and it refuses what exceeds a quota. */
import { randomUUIDv7 } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { recordAccountAction } from '../../../db/accounts/account-actions.ts';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import {
  holdMedia,
  type MediaHolder,
  releaseMedia,
  releaseMediaOfSession,
  saveMedia,
} from '../../../db/accounts/media.ts';
import {
  addBlobBytes,
  dropUsagePeriods,
  foldUsage,
  readUsage,
  recountUsage,
  requireRoom,
  saveUsageLimits,
  setWorkspaceBytes,
} from '../../../db/accounts/usage.ts';
import { maintainUsage } from '../../../db/accounts/usage-upkeep.ts';
import { deletePlugin, insertPlugin, sweepDeletedPlugins } from '../../../db/catalog/plugins.ts';
import {
  type BuiltPackage,
  deleteReplacedDrafts,
  insertVersion,
  listVersionNumbers,
  markYanked,
  releaseYankedVersions,
  replaceDraft,
} from '../../../db/catalog/versions.ts';
import { insertChannel } from '../../../db/channels/channels.ts';
import { insertDeliveries, insertReply, type NewDelivery } from '../../../db/channels/deliveries.ts';
import { replayDeliveries } from '../../../db/channels/delivery-history.ts';
import { endOrphanedDeliveries, sweepDeliveries } from '../../../db/channels/delivery-queue.ts';
import { deleteSecret, openSecretKeys, saveSecret } from '../../../db/files/secrets.ts';
import { endOrphanedEvents, recordEvent } from '../../../db/installations/events.ts';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import { changeInstallation } from '../../../db/installations/installations.ts';
import { deleteStorageValue, writeStorageValue } from '../../../db/installations/plugin-storage.ts';
import type { Queues } from '../../../db/jobs/queues.ts';
import { orderedId } from '../../../db/postgres/ordered-id.ts';
import { inTransaction, takeNamedLock } from '../../../db/postgres/pool.ts';
import { listValues } from '../../../db/postgres/rows.ts';
import { insertAudit, maintainAudit } from '../../../db/records/audit.ts';
import { insertLogs, maintainLogs } from '../../../db/records/logs.ts';
import { setRuntimeTools } from '../../../db/sessions/runtime-tools.ts';
import { sweepChanges } from '../../../db/sessions/session-changes.ts';
import { deleteSession, deleteWithSessions } from '../../../db/sessions/session-removal.ts';
import { appendMessages, clearSession, openSession } from '../../../db/sessions/sessions.ts';
import { insertTodo, updateTodo } from '../../../db/sessions/todos.ts';
import { answerCall, claimTurnCall, handCall } from '../../../db/sessions/tool-calls.ts';
import { claimTurn } from '../../../db/sessions/turns.ts';
import type { UsageKind } from '../../../sdk/contract/usage-kinds.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { amount, seed, soakTest } from '../../runner/soak.ts';

const { pool } = await testDatabase(t);
const secretKeys = await openSecretKeys(await temporaryFolder(t));
const queues = { send: async () => undefined, sendToGroups: async () => undefined } as unknown as Queues;
const HOUR_MS = 3_600_000;

interface Tenant {
  readonly accountId: string;
  readonly pluginId: string;
  readonly installationId: string;
}
async function tenant(name: string): Promise<Tenant> {
  const { id: accountId } = await findOrCreateAccount(pool, name);
  const made = { accountId, pluginId: `p-${name}`, installationId: `i-${name}` };
  await insertBareInstallation(pool, made);
  return made;
}

const built = (bytes: number): BuiltPackage => ({
  sourceSha256: 'a',
  bundleSha256: 'b',
  sourceMapSha256: null,
  sizeBytes: bytes,
  storedBytes: bytes + 100,
  manifest: { name: 'x', description: 'x', capabilities: [], settings: {}, secrets: {} },
  readme: '',
  capabilities: [],
  discovered: {},
  registrations: {} as BuiltPackage['registrations'],
  files: [{ path: 'index.ts', sha256: 'c', sizeBytes: bytes }],
});
const delivery = ({ accountId, installationId }: Tenant, channelId: string, bytes: number): NewDelivery => ({
  id: randomUUIDv7(),
  channelId,
  installationId,
  accountId,
  routingId: 'r',
  receivedAt: Date.now(),
  method: 'POST',
  query: 'a=ä',
  headers: [['x-a', 'é']],
  body: Buffer.alloc(bytes),
});
const someOf = async <Row>(sql: string, values: unknown[]): Promise<Row | undefined> =>
  (await pool.query(sql, values)).rows[0] as Row | undefined;
const sessionOf = ({ accountId }: Tenant) =>
  someOf<{ id: string }>('SELECT id FROM sessions WHERE account_id = $1 ORDER BY id LIMIT 1', [accountId]);
const channelOf = async (at: Tenant): Promise<string> => {
  const found = await someOf<{ id: string }>('SELECT id FROM channels WHERE account_id = $1', [at.accountId]);
  return found?.id ?? (await inTransaction(pool, (tx) => insertChannel(tx, { ...at, name: 'inbox' }))).id;
};
const putMedia = (accountId: string, holder: MediaHolder, size: number) =>
  saveMedia(
    pool,
    { accountId, holder, sha256: `${size % 3}`, sizeBytes: size % 3, mediaType: 'text/plain', name: null },
    { bytes: 1e9, files: 100 },
  );
const finish = (table: string, state: string, { accountId }: Tenant) =>
  pool.query(
    `UPDATE ${table} SET state = $2, finished_at = now() WHERE id IN
       (SELECT id FROM ${table} WHERE account_id = $1 AND state = 'pending' ORDER BY id LIMIT 2)`,
    [accountId, state],
  );

let number = 0;
const nextNumber = (): number => {
  number += 1;
  return number;
};
/** Bytes of files, which no table holds. */
const files = new Map<string, { blobs: number; workspaces: number }>();
const filesOf = ({ accountId }: Tenant) => {
  const known = files.get(accountId) ?? { blobs: 0, workspaces: 0 };
  files.set(accountId, known);
  return known;
};

/** Changes of an account. `size` is random. */
const steps: Readonly<Record<string, (at: Tenant, size: number) => Promise<unknown>>> = {
  publish: ({ pluginId }, size) =>
    inTransaction(pool, (tx) => insertVersion(tx, pluginId, `1.0.${nextNumber()}`, built(size), [])),
  draft: ({ pluginId }, size) =>
    inTransaction(pool, async (tx) => {
      await replaceDraft(tx, pluginId);
      await deleteReplacedDrafts(tx, pluginId);
      await insertVersion(tx, pluginId, null, built(size), []);
    }),
  yank: ({ pluginId }) =>
    inTransaction(pool, async (tx) => {
      const [oldest] = (await listVersionNumbers(tx, pluginId)).filter(({ status }) => status === 'published');
      if (oldest) await markYanked(tx, oldest.id);
      await releaseYankedVersions(tx, pluginId);
    }),
  'yank while it is in use': ({ pluginId, installationId }) =>
    inTransaction(pool, async (tx) => {
      const [oldest] = (await listVersionNumbers(tx, pluginId)).filter(({ status }) => status === 'published');
      if (!oldest) return;
      await tx.query('UPDATE installations SET current_version_id = $2 WHERE id = $1', [installationId, oldest.id]);
      await markYanked(tx, oldest.id);
      await releaseYankedVersions(tx, pluginId);
    }),
  'delete a plugin': async ({ accountId }, size) => {
    const slug = `gone-${nextNumber()}`;
    const plugin = await insertPlugin(pool, { ownerId: accountId, slug, displayName: slug, description: '' });
    if (!plugin) throw new Error('the slug is free');
    await inTransaction(pool, (tx) => insertVersion(tx, plugin.id, null, built(size), []));
    await inTransaction(pool, (tx) => deletePlugin(tx, plugin.id));
    await sweepDeletedPlugins(pool);
  },
  session: ({ accountId }, size) =>
    openSession(pool, { accountId, agentId: 'a', agentName: 'A', channelId: null, key: 'ä'.repeat(1 + (size % 200)) }),
  append: async (at, size) => {
    const session = (await sessionOf(at))?.id ?? '';
    const message = { id: `m-${size}`, role: 'user', text: 'ä'.repeat(size), data: { n: size, zero: '\0' } } as const;
    await appendMessages(pool, session, [message, { role: 'assistant', text: 'x' }]);
    await appendMessages(pool, session, [message]);
  },
  'hand a call over, and answer it': async (at, size) => {
    const session = await sessionOf(at);
    if (!session) return;
    const turn = { id: 't', sender: 'user', trigger: 'user', digest: '', systemPrompt: '', model: '' } as const;
    await claimTurn(pool, session.id, { ...turn, runtime: 'r', leaseSeconds: 100 });
    await pool.query(`UPDATE turns SET state = 'open' WHERE session_id = $1`, [session.id]);
    const key = { sessionId: session.id, turnId: 't', callId: `c-${size}`, digest: '' };
    await claimTurnCall(pool, key, { runtime: 'r', name: 'x', sortedDigest: '' });
    await handCall(pool, key, { arguments: { text: 'ä'.repeat(size) }, attempt: '1' });
    if (size % 2)
      await answerCall(
        pool,
        key,
        { result: { content: [{ type: 'text', text: 'ä'.repeat(size) }], isError: false } },
        null,
      );
  },
  clear: async (at) => {
    const session = (await sessionOf(at))?.id ?? '';
    await clearSession(pool, session);
    await releaseMediaOfSession(pool, session);
  },
  'expire changes': async () => {
    await pool.query(`UPDATE session_changes SET at = at - interval '25 hours'`);
    await sweepChanges(pool);
  },
  'delete a session': async (at) => {
    const { id = '' } = (await sessionOf(at)) ?? {};
    return inTransaction(pool, (tx) => deleteSession(tx, queues, { ...at, id }));
  },
  'delete all sessions': ({ accountId }) =>
    deleteWithSessions(pool, queues, {
      accountId,
      lock: async () => true,
      listSessions: (db, limit) =>
        listValues(db, 'SELECT id FROM sessions WHERE account_id = $1 LIMIT $2', [accountId, limit]),
      delete: async () => undefined,
    }),
  deliver: async (at, size) => {
    const channel = await channelOf(at);
    const group = [delivery(at, channel, size), delivery(at, channel, 0)];
    await insertDeliveries(pool, group);
    await insertDeliveries(pool, group);
  },
  reply: async (at, size) => insertReply(pool, { ...delivery(at, await channelOf(at), size), conversationKey: 'k' }),
  'end deliveries': (at, size) => finish('deliveries', size % 2 ? 'delivered' : 'dead', at),
  replay: ({ installationId }) =>
    inTransaction(pool, (tx) => replayDeliveries(tx, { installationId, state: 'dead', limit: 3 })),
  'expire deliveries': () => sweepDeliveries(pool, 0),
  event: (at) =>
    recordEvent(pool, queues, {
      ...at,
      versionId: null,
      semVer: null,
      type: 'pluginUninstalled',
      data: { by: 'user' },
    }),
  'end events': (at, size) => finish('events', size % 2 ? 'delivered' : 'dead', at),
  'put media': ({ accountId, installationId }, size) => putMedia(accountId, { installationId }, size),
  'put media of a session': async (at, size) =>
    putMedia(at.accountId, { sessionId: (await sessionOf(at))?.id ?? '' }, size),
  'hold media': async (at, size) => {
    const session = await sessionOf(at);
    const { rows } = await pool.query<{ id: string }>('SELECT id FROM media WHERE account_id = $1', [at.accountId]);
    const ids = rows.slice(0, size % 3).map(({ id }) => id);
    if (session) await holdMedia(pool, { accountId: at.accountId, sessionId: session.id }, ids);
  },
  'remove media': async ({ accountId, installationId }) => {
    const found = await someOf<{ id: string }>('SELECT id FROM media WHERE account_id = $1', [accountId]);
    if (found) await releaseMedia(pool, { accountId, installationId, id: found.id });
  },
  store: ({ installationId }, size) =>
    writeStorageValue(pool, installationId, { key: `${size % 2}`, value: 'v'.repeat(size) }, 1e9),
  'remove a value': ({ installationId }, size) => deleteStorageValue(pool, installationId, `${size % 2}`),
  configure: ({ installationId }, size) =>
    inTransaction(pool, (tx) =>
      changeInstallation(tx, installationId, { settings: size % 3 ? { a: 'ä'.repeat(size) } : {} }),
    ),
  'give a secret': ({ installationId }, size) =>
    saveSecret(pool, secretKeys, installationId, `${size % 2}`, 'ä'.repeat(size)),
  'remove a secret': ({ installationId }, size) => deleteSecret(pool, installationId, `${size % 2}`),
  log: ({ installationId }, size) => insertLogs(pool, [logLine(installationId, size), logLine('i-gone', size)]),
  'expire logs': async () => {
    await maintainLogs(pool, Date.now() + 30 * HOUR_MS);
    await maintainLogs(pool);
  },
  audit: ({ installationId }, size) => insertAudit(pool, [auditEntry(installationId, size)]),
  act: (at, size) => act(at, 'd'.repeat(size)),
  uninstall: async (at) => {
    await pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [at.installationId]);
    await removeInstallation(pool, queues, at.installationId);
    await endOrphanedEvents(pool);
    await endOrphanedDeliveries(pool, null);
    await pool.query(
      `INSERT INTO installations (id, account_id, plugin_id, version_policy, granted_capabilities, status, hook_order)
       VALUES ($1, $2, $3, 'Latest', '{}', 'ready', 1)`,
      [at.installationId, at.accountId, at.pluginId],
    );
  },
  'write blobs': async (at, size) => {
    await addBlobBytes(pool, at.accountId, size);
    filesOf(at).blobs += size;
  },
  'sweep blobs': async () => {
    await dropUsagePeriods(pool, 'blobs', new Date(Date.now() + HOUR_MS));
    for (const counted of files.values()) counted.blobs = 0;
  },
  'measure the workspace': async (at, size) => {
    await setWorkspaceBytes(pool, at.accountId, size);
    filesOf(at).workspaces = size;
  },
  fold: () => foldUsage(pool),
  recount: () => recountUsage(pool),
  upkeep: () => maintainUsage(pool),
};

const act = ({ accountId }: Tenant, detail: string) =>
  recordAccountAction(pool, { accountId, action: 'x', subject: 's', detail, tokenId: null, actor: null });
const logLine = (installationId: string, size: number) => ({
  id: orderedId(Date.now()),
  at: new Date().toISOString(),
  level: 'info' as const,
  installationId,
  source: 'x',
  sessionId: null,
  invocationId: null,
  versionId: null,
  semVer: null,
  truncated: false,
  message: 'ä'.repeat(size),
  data: size % 2 ? '{"a":1}' : null,
});
const auditEntry = (installationId: string, size: number) => ({
  id: orderedId(Date.now()),
  at: new Date().toISOString(),
  installationId,
  member: 'storage.get',
  durationMs: 1,
  sessionId: null,
  invocationId: null,
  outcome: 'ok' as const,
  argumentsSha256: null,
  detail: 'd'.repeat(size),
});

/** The sizes of the tables' contents, with the constants for each row. */
const COUNTED = `
  SELECT 'versions' AS kind, coalesce(sum(v.stored_bytes), 0)::float8 AS bytes
    FROM versions v JOIN plugins p ON p.id = v.plugin_id WHERE p.owner_id = $1 AND v.semver IS NOT NULL
  UNION ALL SELECT 'drafts', coalesce(sum(v.size_bytes + 100), 0)
    FROM versions v JOIN plugins p ON p.id = v.plugin_id WHERE p.owner_id = $1 AND v.semver IS NULL
  UNION ALL SELECT 'transcripts', (
    SELECT coalesce(sum(greatest(500, 300 + octet_length(agent_name) + 2 * octet_length(agent_id || key))), 0)
      FROM sessions WHERE account_id = $1)
    + (SELECT coalesce(sum(octet_length(agent_id) + 300), 0) FROM session_changes WHERE account_id = $1)
    + (SELECT count(*) * 300 FROM session_media h JOIN sessions s ON s.id = h.session_id WHERE s.account_id = $1)
    + (SELECT coalesce(sum(octet_length(m.text) + coalesce(octet_length(m.data::text), 0) + 300), 0)
         FROM session_messages m JOIN sessions s ON s.id = m.session_id WHERE s.account_id = $1)
    + (SELECT count(*) * 2000 FROM turns WHERE account_id = $1)
    + (SELECT coalesce(sum(coalesce(octet_length(arguments::text), 0) + coalesce(octet_length(answer::text), 0) + 600), 0)
         FROM tool_calls WHERE account_id = $1)
  UNION ALL SELECT 'deliveries',
    (SELECT coalesce(sum(octet_length(body) + octet_length(headers::text) + octet_length(query) + 700), 0)
       FROM deliveries WHERE account_id = $1)
    + (SELECT coalesce(sum(octet_length(data::text) + 700), 0) FROM events WHERE account_id = $1)
  UNION ALL SELECT 'media', coalesce(sum(size_bytes + 500), 0) FROM media WHERE account_id = $1
  UNION ALL SELECT 'storage', (SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0)
      FROM installation_storage s JOIN installations i ON i.id = s.installation_id WHERE i.account_id = $1)
    + (SELECT coalesce(sum(octet_length(settings::text)), 0) FROM installations WHERE account_id = $1 AND settings <> '{}')
    + (SELECT coalesce(sum(octet_length(sealed) + 300), 0)
         FROM installation_secrets s JOIN installations i ON i.id = s.installation_id WHERE i.account_id = $1)
  UNION ALL SELECT 'logs', coalesce(sum(octet_length(message) + coalesce(octet_length(data::text), 0) + 400), 0)
    FROM plugin_logs WHERE installation_id = $2
  UNION ALL SELECT 'audit', (SELECT coalesce(sum(octet_length(detail) + 400), 0) FROM audit WHERE installation_id = $2)
    + (SELECT coalesce(sum(octet_length(subject) + octet_length(detail) + 300), 0) FROM account_actions WHERE account_id = $1)`;

async function countTables(at: Tenant): Promise<Record<string, number>> {
  const found = await pool.query<{ kind: string; bytes: number }>(COUNTED, [at.accountId, at.installationId]);
  return { ...Object.fromEntries(found.rows.map(({ kind, bytes }) => [kind, Number(bytes)])), ...filesOf(at) };
}
async function readLedger({ accountId }: Tenant): Promise<Record<string, number>> {
  return Object.fromEntries((await readUsage(pool, accountId)).map(({ kind, usedBytes }) => [kind, usedBytes]));
}
const usedOf = async (at: Tenant, kind: UsageKind): Promise<number> => (await readLedger(at))[kind] ?? Number.NaN;

await maintainLogs(pool);
await maintainAudit(pool);

t.test('after every step of any sequence, the ledger equals what the tables hold', async (t) => {
  const tenants = [await tenant('ann'), await tenant('bob')] as const;
  const step = fc.tuple(fc.constantFrom(...Object.keys(steps)), fc.nat(1), fc.nat(5_000));
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 50 }), async (sequence) => {
      for (const [name, who, size] of sequence) {
        await steps[name]?.(tenants[who as 0 | 1], size);
        for (const at of tenants) t.same(await readLedger(at), await countTables(at), name);
      }
    }),
    { numRuns: amount({ quick: 2, soak: 100 }), seed, endOnFailure: true },
  );
});

t.test('the arguments of a call that is handed over count', async (t) => {
  const at = await tenant('gil');
  await steps.session?.(at, 0);
  await steps['hand a call over, and answer it']?.(at, 1_000);
  const used = await usedOf(at, 'transcripts');
  t.ok(used > 500 + 2_000 + 600 + 2_000, `${used} bytes`);
  t.same(await readLedger(at), await countTables(at));
});

t.test('a system prompt that a turn gets after it was opened counts', async (t) => {
  const at = await tenant('kim');
  await steps.session?.(at, 0);
  const { id: sessionId } = (await sessionOf(at)) ?? { id: '' };
  const turn = {
    id: 't',
    sender: 'user',
    trigger: 'user',
    digest: '',
    model: '',
    runtime: 'r',
    leaseSeconds: 9,
  } as const;
  for (const systemPrompt of ['', 'ä'.repeat(1_000), 'shorter']) {
    await claimTurn(pool, sessionId, { ...turn, systemPrompt });
    t.equal(await usedOf(at, 'transcripts'), 500 + 2_000 + Buffer.byteLength(systemPrompt));
  }
  await steps['delete a session']?.(at, 0);
  t.same(await readLedger(at), await countTables(at));
});

t.test('a long key of a session counts, once', async (t) => {
  const at = await tenant('hal');
  for (const _ of [1, 2]) await steps.session?.(at, 199);
  t.equal(await usedOf(at, 'transcripts'), 300 + 1 + 2 * 1 + 2 * 400);
  await steps['delete a session']?.(at, 0);
  t.same(await readLedger(at), await countTables(at));
});

t.test('changes of sessions, and the files that sessions hold, count while they are kept', async (t) => {
  const at = await tenant('ivy');
  for (const step of ['session', 'put media of a session', 'hold media', 'clear', 'put media of a session']) {
    await steps[step]?.(at, 1);
    t.same(await readLedger(at), await countTables(at), step);
  }
  t.equal(await usedOf(at, 'transcripts'), 500 + 301 + 300);
  await steps['delete a session']?.(at, 0);
  t.equal(await usedOf(at, 'transcripts'), 2 * 301);
  t.equal(await usedOf(at, 'media'), 0);
  await steps['expire changes']?.(at, 0);
  t.equal(await usedOf(at, 'transcripts'), 301, 'the last change of an account is kept');
});

t.test('near the quota of audit the oldest host calls go, then the oldest actions of the account', async (t) => {
  const at = await tenant('jon');
  t.teardown(() => saveUsageLimits(pool, {}));
  await saveUsageLimits(pool, { audit: 20_000 });
  const countKept = async () =>
    someOf(
      `SELECT (SELECT count(*)::int FROM audit WHERE account_id = $1) AS calls,
              (SELECT count(*)::int FROM account_actions WHERE account_id = $1) AS actions`,
      [at.accountId],
    );
  for (let index = 0; index < 10; index += 1) await act(at, `${index}`);
  const tomorrow = new Date(Date.now() + 24 * HOUR_MS).toISOString();
  for (let index = 0; index < 20; index += 1) {
    await steps.audit?.(at, 100);
    await insertAudit(pool, [{ ...auditEntry(at.installationId, 100), at: tomorrow }]);
  }
  await maintainUsage(pool);
  t.same(await countKept(), { calls: 25, actions: 10 }, 'as many as fit into 16,000 bytes beside ten actions of 302');
  const setDrift = (bytes: number) =>
    pool.query(
      `INSERT INTO account_usage_changes (account_id, kind, period, bytes) VALUES ($1, 'audit', '2020-01-01', $2)`,
      [at.accountId, bytes],
    );
  await setDrift(10_000);
  await maintainUsage(pool);
  t.match(await countKept(), { actions: 10 }, 'a sum without rows removes no action');
  await setDrift(-10_000);
  for (let index = 10; index < 60; index += 1) await act(at, `${index}`);
  await maintainUsage(pool);
  t.same(await countKept(), { calls: 0, actions: 52 });
  const oldest = 'SELECT detail FROM account_actions WHERE account_id = $1 ORDER BY id LIMIT 1';
  t.same(await someOf(oldest, [at.accountId]), { detail: '8' });
  t.same(await readLedger(at), await countTables(at));
});

await soakTest(t, 'the oldest records go in batches that read no records of others', async (t) => {
  const [at, other] = [await tenant('max'), await tenant('ned')];
  t.teardown(() => saveUsageLimits(pool, {}));
  const rows = { own: 7_000, others: 20_000 };
  const fill = async (table: string, columns: string, values: string) => {
    for (const [{ accountId, installationId }, count] of [
      [at, rows.own],
      [other, rows.others],
    ] as const)
      await pool.query(
        `INSERT INTO ${table} (id, at, installation_id, account_id, ${columns})
         SELECT $1 || lpad(n::text, 6, '0'), now(), $2, $1, ${values} FROM generate_series(1, $3::int) n`,
        [accountId, installationId, count],
      );
    await pool.query(`ANALYZE ${table}`);
  };
  await fill('plugin_logs', 'level, message, source', `'info', '', 'x'`);
  await fill('audit', 'member, outcome, duration_ms', `'x', 'ok', 1`);
  await saveUsageLimits(pool, { logs: 2_000 * 400, audit: 2_000 * 400 });
  await foldUsage(pool);
  await pool.query(
    `INSERT INTO account_usage_changes VALUES ($1, 'logs', '-infinity', 0), ($1, 'audit', '-infinity', 0)`,
    [at.accountId],
  );
  const explained = explainPool(pool);
  await maintainUsage(explained.pool);
  for (const table of ['plugin_logs', 'audit']) {
    const kept = `SELECT min(id), count(*)::int FROM ${table} WHERE account_id = $1`;
    t.same(await someOf(kept, [at.accountId]), { min: `${at.accountId}005401`, count: 1_600 }, table);
    const costs = explained.costs.flatMap(({ rowsRead }) => {
      const partitions = Object.entries(rowsRead).filter(([name]) => name.startsWith(`${table}_2`));
      return partitions.length > 0 ? [partitions.reduce((sum, [, read]) => sum + read, 0)] : [];
    });
    t.ok(costs.length >= 3, `${costs.length} batches`);
    // Each of 2,000 rows is selected, locked, joined and deleted.
    for (const read of costs) t.ok(read <= 4 * 2_000, `${read} rows of ${table}`);
  }
});

t.test('a recount heals sums that drifted, while others write', async (t) => {
  const at = await tenant('cat');
  await steps.deliver?.(at, 1_000);
  await foldUsage(pool);
  await pool.query('UPDATE account_usage SET bytes = bytes + 7 WHERE account_id = $1', [at.accountId]);
  await pool.query(`INSERT INTO account_usage (account_id, kind, bytes) VALUES ($1, 'media', 5)`, [at.accountId]);
  const writes = Array.from({ length: 20 }, () => steps.deliver?.(at, 100));
  t.equal(await recountUsage(pool), true);
  await Promise.all(writes);
  t.same(await readLedger(at), await countTables(at));
});

await soakTest(t, 'a recount writes no sum that is right', async (t) => {
  const at = await tenant('sam');
  await steps.deliver?.(at, 1_000);
  await steps.log?.(at, 100);
  await recountUsage(pool);
  const listVersions = () =>
    listValues(
      pool,
      "SELECT format('%s %s %s', kind, bytes, xmin) FROM account_usage WHERE account_id = $1 ORDER BY 1",
      [at.accountId],
    );
  const before = await listVersions();
  t.equal(before.length, 2);
  await recountUsage(pool);
  t.same(await listVersions(), before);
  t.same(await readLedger(at), await countTables(at));
});

await soakTest(
  t,
  'a fold does not wait for a recount of another process, and the next one moves the changes',
  async (t) => {
    const at = await tenant('lou');
    await steps.deliver?.(at, 1_000);
    await inTransaction(pool, async (tx) => {
      await takeNamedLock(tx, 'account usage');
      t.same(await foldUsage(pool), []);
      t.equal(await recountUsage(pool), false, 'nor does another recount');
    });
    const folded = await foldUsage(pool);
    t.ok(folded.some(({ accountId }) => accountId === at.accountId));
    t.same(await readLedger(at), await countTables(at));
  },
);

t.test('an insert over a quota fails whole, and giving back makes room', async (t) => {
  const at = await tenant('dan');
  t.teardown(() => saveUsageLimits(pool, {}));
  await saveUsageLimits(pool, {
    versions: 10_000,
    drafts: 5_000,
    transcripts: 10_000,
    blobs: 3_000,
    deliveries: 5_000,
  });
  const refused = (kind: string) => ({ code: 'quota_exceeded', status: 413, errors: [{ field: kind }] });
  for (const size of [4_000, 4_000]) await steps.publish?.(at, size);
  await t.rejects(async () => steps.publish?.(at, 4_000), refused('versions'));
  t.equal(await usedOf(at, 'versions'), 8_200, 'the refused version is not there');
  await steps.yank?.(at, 0);
  await steps.publish?.(at, 4_000);
  await steps.draft?.(at, 4_000);
  await steps.draft?.(at, 4_800);
  await t.rejects(async () => steps.draft?.(at, 4_901), refused('drafts'), 'the old draft stays');
  await steps.session?.(at, 0);
  await steps.append?.(at, 3_000);
  await t.rejects(async () => steps.append?.(at, 3_001), refused('transcripts'));
  await steps.clear?.(at, 0);
  await steps.append?.(at, 3_001);
  await addBlobBytes(pool, at.accountId, 3_000);
  await t.rejects(addBlobBytes(pool, at.accountId, 1), {
    message:
      'Quota exceeded: blobs would take 3001 of 3000 bytes. Wait: files that nothing uses are removed within three hours.',
  });
  await requireRoom(pool, at.accountId, 'deliveries', 5_000);
  await t.rejects(requireRoom(pool, at.accountId, 'deliveries', 5_001), refused('deliveries'));
  t.same(await readLedger(at), { ...(await countTables(at)), blobs: 3_000 });
});

t.test('over the quota of transcripts, to-dos are completed and tools reduced, but neither grows', async (t) => {
  const at = await tenant('tom');
  t.teardown(() => saveUsageLimits(pool, {}));
  await steps.session?.(at, 0);
  const { id: sessionId } = (await sessionOf(at)) ?? { id: '' };
  const key = { accountId: at.accountId, todoId: 'one' };
  const fields = { title: 'title', notes: 'n'.repeat(1_000), dueAt: null, assigneeAgentId: null };
  await insertTodo(pool, key, fields, { digest: '', createdBy: 'a', maxTodos: 9 });
  const tools = ['read', 'write'].map((name) => ({ name, description: 'x', parameters: { type: 'object' } as const }));
  await setRuntimeTools(pool, sessionId, tools);
  await saveUsageLimits(pool, { transcripts: 100 });
  const refused = { code: 'quota_exceeded', errors: [{ field: 'transcripts' }] };
  t.match(await updateTodo(pool, key, { ...fields, done: true }), { done: true });
  t.match(await updateTodo(pool, key, { ...fields, notes: '', done: true }), { notes: '' });
  await t.rejects(updateTodo(pool, key, { ...fields, notes: 'n', done: true }), refused);
  t.equal(await setRuntimeTools(pool, sessionId, tools.slice(1)), true);
  await t.rejects(setRuntimeTools(pool, sessionId, tools), refused);
  await saveUsageLimits(pool, {});
  await updateTodo(pool, key, { ...fields, done: true });
});

t.test('near a quota the oldest finished records go, and pending ones and other accounts keep theirs', async (t) => {
  const [at, other] = [await tenant('eve'), await tenant('fay')];
  t.teardown(() => saveUsageLimits(pool, {}));
  const channels = [await channelOf(at), await channelOf(other)] as const;
  const many = Array.from({ length: 40 }, () => delivery(at, channels[0], 1_000));
  await insertDeliveries(pool, many);
  await insertDeliveries(pool, [delivery(other, channels[1], 1_000)]);
  const end = (from: number, to: number, state: string) =>
    pool.query(`UPDATE deliveries SET state = $2, finished_at = now() + $3 * interval '1 s' WHERE id = ANY ($1)`, [
      many.slice(from, to).map(({ id }) => id),
      state,
      from,
    ]);
  await end(0, 5, 'dead');
  for (let index = 5; index < 20; index += 1) await end(index, index + 1, 'delivered');
  const all = await usedOf(at, 'deliveries');
  await saveUsageLimits(pool, { deliveries: all, logs: 20_000, audit: 20_000 });
  await maintainUsage(pool);
  const left = await pool.query<{ id: string }>('SELECT id FROM deliveries WHERE account_id = $1 ORDER BY id', [
    at.accountId,
  ]);
  const kept = [...many.slice(0, 5), ...many.slice(13)].map(({ id }) => id);
  t.same(left.rows.map(({ id }) => id).toSorted(), kept.toSorted(), 'the eight oldest delivered ones are a fifth');
  t.ok((await usedOf(at, 'deliveries')) <= all * 0.8);
  t.ok((await usedOf(other, 'deliveries')) > 0);
  // Only pending ones are left to go: nothing more is removed.
  await saveUsageLimits(pool, { deliveries: 1, logs: 20_000, audit: 20_000 });
  await maintainUsage(pool);
  const pending = await pool.query('SELECT state FROM deliveries WHERE account_id = $1', [at.accountId]);
  t.same(pending.rows, Array(20).fill({ state: 'pending' }));
  for (let index = 0; index < 30; index += 1) await steps.log?.(at, index * 20);
  for (let index = 0; index < 60; index += 1) await steps.audit?.(at, 100);
  await steps.log?.(other, 10);
  await maintainUsage(pool);
  const lines = await pool.query<{ length: number }>(
    'SELECT length(message) FROM plugin_logs WHERE account_id = $1 ORDER BY id',
    [at.accountId],
  );
  t.ok((await usedOf(at, 'logs')) <= 16_000 && lines.rows.length > 10);
  t.equal(lines.rows.at(-1)?.length, 580, 'the newest line stays');
  t.ok((await usedOf(at, 'audit')) <= 16_000 && (await usedOf(at, 'audit')) > 14_000);
  t.ok((await usedOf(other, 'logs')) > 0);
  t.same(await readLedger(at), await countTables(at));
});

t.test(
  'a quota full of pending deliveries is emptied once they are finished, although no sum changes then',
  async (t) => {
    const at = await tenant('ora');
    t.teardown(() => saveUsageLimits(pool, {}));
    for (let index = 0; index < 20; index += 1) await steps.deliver?.(at, 1_000);
    const all = await usedOf(at, 'deliveries');
    await saveUsageLimits(pool, { deliveries: all });
    const full = await maintainUsage(pool, []);
    t.same(full, [{ accountId: at.accountId, kind: 'deliveries' }]);
    t.equal(await usedOf(at, 'deliveries'), all);
    await pool.query(`UPDATE deliveries SET state = 'delivered', finished_at = now() WHERE account_id = $1`, [
      at.accountId,
    ]);
    t.same(await maintainUsage(pool, full), full);
    const kept = await usedOf(at, 'deliveries');
    t.ok(kept <= all * 0.8 && kept > all * 0.7, `${kept} of ${all} bytes`);
    t.same(await maintainUsage(pool, full), []);
  },
);

await soakTest(
  t,
  'the first turn empties a quota that was lowered, and another process at the same time removes no more',
  async (t) => {
    const at = await tenant('pia');
    t.teardown(() => saveUsageLimits(pool, {}));
    for (let index = 0; index < 20; index += 1) await steps.deliver?.(at, 1_000);
    await pool.query(`UPDATE deliveries SET state = 'delivered', finished_at = now() WHERE account_id = $1`, [
      at.accountId,
    ]);
    await foldUsage(pool);
    const limit = (await usedOf(at, 'deliveries')) / 2;
    await saveUsageLimits(pool, { deliveries: limit });
    t.same(await maintainUsage(pool, []), []);
    await Promise.all([maintainUsage(pool), maintainUsage(pool), maintainUsage(pool)]);
    const kept = await usedOf(at, 'deliveries');
    t.ok(kept <= limit * 0.8 && kept > limit * 0.7, `${kept} of ${limit} bytes`);
  },
);

await soakTest(t, 'an account whose records cannot be removed does not stop the removal of others', async (t) => {
  const [at, other] = [await tenant('quy'), await tenant('ria')];
  t.teardown(async () => {
    await saveUsageLimits(pool, {});
    await pool.query('DROP FUNCTION refuse_removal CASCADE');
  });
  for (const each of [at, other]) await steps.deliver?.(each, 1_000);
  const accounts = [at.accountId, other.accountId];
  await pool.query(`UPDATE deliveries SET state = 'delivered', finished_at = now() WHERE account_id = ANY ($1)`, [
    accounts,
  ]);
  await pool.query(`
    CREATE FUNCTION refuse_removal() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''not this one''; END';
    CREATE TRIGGER refused BEFORE DELETE ON deliveries FOR EACH ROW WHEN (OLD.account_id = '${at.accountId}')
      EXECUTE FUNCTION refuse_removal()`);
  await saveUsageLimits(pool, { deliveries: 1 });
  const errors: string[] = [];
  const full = await maintainUsage(pool, null, ({ message }) => errors.push(message));
  t.ok(accounts.every((accountId) => full.some((one) => one.accountId === accountId)));
  t.same(errors, ['not this one']);
  t.equal(await usedOf(other, 'deliveries'), 0);
});
