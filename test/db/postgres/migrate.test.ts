/** Migrations: applied once by many processes, rolled back together, and right about existing rows. */
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { readUsage } from '../../../db/accounts/usage.ts';
import { MIGRATIONS, migrate } from '../../../db/postgres/migrate.ts';
import { openPool } from '../../../db/postgres/pool.ts';
import { pageInbox } from '../../../db/sessions/inbox.ts';
import { untilLockIsAwaited } from '../../fixtures/lock-waits.ts';
import { eventually } from '../../runner/eventually.ts';
import { emptyDatabase, type Teardown, temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';

const { url } = await testDatabase(t);
const folder = await temporaryFolder(t);

/** A second schema history in the same database would clash with the real one: these tests have an empty database. */
const empty = new URL(url);
empty.pathname = `${empty.pathname}_empty`;
const admin = openPool(url, { name: 'admin', connections: 1, onError: () => undefined });
await admin.pool.query(`CREATE DATABASE ${empty.pathname.slice(1)}`);
t.teardown(async () => {
  await admin.pool.query(`DROP DATABASE ${empty.pathname.slice(1)} WITH (FORCE)`);
  await admin.close();
});

t.test('a database that is not in UTF8 is refused', async (t) => {
  const other = new URL(url);
  other.pathname = `${other.pathname}_ascii`;
  const name = other.pathname.slice(1);
  await admin.pool.query(`CREATE DATABASE ${name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0`);
  t.teardown(() => admin.pool.query(`DROP DATABASE ${name} WITH (FORCE)`));
  await t.rejects(migrate(other.href), { message: /has the encoding SQL_ASCII: Bulkhead needs UTF8\./ });
});

t.test('the template has all migrations', async (t) => {
  t.same(await migrate(url), []);
});

t.test('a database with another migration than this release is refused, with both names', async (t) => {
  const { pool, url } = await emptyDatabase(t);
  const directory = join(folder, 'other');
  await mkdir(directory);
  await writeFile(join(directory, '0001_one.sql'), '-- Up Migration\nSELECT 1;');
  await migrate(url, { directory, indexes: [] });
  await pool.query(`UPDATE migrations SET name = '0001_renamed'`);
  await t.rejects(migrate(url, { directory, indexes: [] }), {
    message:
      'The database has the migration 0001_renamed where this release has 0001_one, so this release cannot migrate it. Use the release that migrated it.',
  });
});

t.test('many processes starting at once apply each migration once', async (t) => {
  const directory = join(folder, 'first');
  await mkdir(directory);
  await writeFile(join(directory, '0001_one.sql'), '-- Up Migration\nCREATE TABLE one (n int);\nSELECT pg_sleep(0.3);');
  await writeFile(join(directory, '0002_two.sql'), '-- Up Migration\nINSERT INTO one VALUES (1);');
  const applied = await Promise.all(Array.from({ length: 6 }, () => migrate(empty.href, { directory, indexes: [] })));
  t.same(applied.flat(), ['0001_one', '0002_two']);
});

t.test('a failing migration rolls back all migrations of the call', async (t) => {
  const directory = join(folder, 'first');
  await writeFile(join(directory, '0003_three.sql'), '-- Up Migration\nCREATE TABLE three (n int);');
  await writeFile(join(directory, '0004_four.sql'), '-- Up Migration\nSELECT nonsense;');
  await t.rejects(migrate(empty.href, { directory, indexes: [] }));
  await writeFile(join(directory, '0004_four.sql'), '-- Up Migration\nCREATE TABLE four (n int);');
  t.same(await migrate(empty.href, { directory, indexes: [] }), ['0003_three', '0004_four']);
});

t.test('an aborted migration ends in the database, too', async (t) => {
  const directory = join(folder, 'aborted');
  await mkdir(directory);
  await writeFile(join(directory, '0001_long.sql'), '-- Up Migration\nSELECT pg_sleep(600);');
  const name = `${new URL(url).pathname.slice(1)}_aborted`;
  const other = new URL(url);
  other.pathname = name;
  await admin.pool.query(`CREATE DATABASE ${name}`);
  t.teardown(() => admin.pool.query(`DROP DATABASE ${name} WITH (FORCE)`));
  const backends = async (): Promise<unknown[]> =>
    (await admin.pool.query('SELECT wait_event FROM pg_stat_activity WHERE datname = $1', [name])).rows;
  const abort = new AbortController();
  const migrating = migrate(other.href, { directory, indexes: [], signal: abort.signal });
  migrating.catch(() => undefined);
  await eventually(async () => JSON.stringify(await backends()) === '[{"wait_event":"PgSleep"}]');
  abort.abort();
  await t.rejects(migrating);
  await eventually(async () => (await backends()).length === 0);
});

t.test('a migration that meets a deadlock, or a table in use, lets traffic pass and tries again', async (t) => {
  const directory = join(folder, 'locked');
  await mkdir(directory);
  const { pool, close } = openPool(empty.href, { name: 'traffic', connections: 3, onError: () => undefined });
  t.teardown(close);
  await pool.query('DROP TABLE migrations; CREATE TABLE a (n int); CREATE SEQUENCE attempts');
  // Which side of a real deadlock is rolled back is chance. A sequence counts what was rolled back too.
  const deadlock = `DO $$ BEGIN IF nextval('attempts') = 1 THEN RAISE deadlock_detected; END IF; END $$;`;
  await writeFile(join(directory, '0001_both.sql'), `-- Up Migration\n${deadlock}\nALTER TABLE a ADD m int;`);
  const dump = await pool.connect();
  await dump.query('BEGIN; LOCK TABLE a IN ACCESS SHARE MODE');
  const waits: string[] = [];
  const migrated = migrate(empty.href, { directory, indexes: [], onWait: (sentence) => void waits.push(sentence) });
  const isWaiting = `SELECT FROM pg_locks WHERE relation = 'a'::regclass AND NOT granted`;
  await eventually(async () => (await pool.query(isWaiting)).rowCount);
  t.ok(waits.length >= 1, 'after the deadlock');
  await pool.query('INSERT INTO a VALUES (1)');
  await eventually(() => waits.length >= 2);
  await dump.query('COMMIT');
  dump.release();
  t.same(await migrated, ['0001_both']);
  t.match(waits[0], /wait for locks that another transaction holds/);
});

t.test(
  'an index of a table with rows is built beside the traffic, once, and again after an interruption',
  async (t) => {
    const directory = join(folder, 'indexes');
    await mkdir(directory);
    const { pool, close } = openPool(empty.href, { name: 'traffic', connections: 3, onError: () => undefined });
    t.teardown(close);
    await pool.query('DROP TABLE migrations; CREATE TABLE many (n int); INSERT INTO many VALUES (1), (1)');
    // As an interrupted build leaves it.
    await t.rejects(pool.query('CREATE UNIQUE INDEX CONCURRENTLY many_n ON many (n)'), /could not create unique index/);
    const writer = await pool.connect();
    await writer.query('BEGIN; INSERT INTO many VALUES (2)');
    const notices: string[] = [];
    const indexes = [{ name: 'many_n', on: 'many (n) WHERE n > 0' }];
    const migrated = [1, 2, 3].map(() =>
      migrate(empty.href, { directory, indexes, onWait: (sentence) => void notices.push(sentence) }),
    );
    await untilLockIsAwaited(pool);
    await pool.query('INSERT INTO many VALUES (3)');
    t.same((await pool.query('SELECT FROM many')).rowCount, 3, 'requests do not wait for the build');
    await writer.query('COMMIT');
    writer.release();
    t.same(await Promise.all(migrated), [[], [], []]);
    t.same(notices, ['building the index many_n, while requests go on']);
    const { rows } = await pool.query(
      `SELECT indisvalid, indisunique FROM pg_index WHERE indexrelid = 'many_n'::regclass`,
    );
    t.same(rows, [{ indisvalid: true, indisunique: false }]);
  },
);

t.test('migrations that were applied are named although the build of an index met a deadlock', async (t) => {
  const directory = join(folder, 'index-deadlock');
  await mkdir(directory);
  const { pool, close } = openPool(empty.href, { name: 'traffic', connections: 1, onError: () => undefined });
  t.teardown(close);
  await pool.query(`DROP TABLE migrations; CREATE TABLE fragile (n int); INSERT INTO fragile VALUES (1); CREATE SEQUENCE builds;
    CREATE FUNCTION fail_once(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
      BEGIN IF nextval('public.builds') = 1 THEN RAISE deadlock_detected; END IF; RETURN n; END $$`);
  await writeFile(join(directory, '0001_one.sql'), '-- Up Migration\nSELECT 1;');
  const indexes = [{ name: 'fragile_n', on: 'fragile (fail_once(n))' }];
  const waits: string[] = [];
  const applied = await migrate(empty.href, { directory, indexes, onWait: (sentence) => void waits.push(sentence) });
  t.match(waits, [/^building the index/, /^the migrations wait for locks/, /^building the index/]);
  t.same(applied, ['0001_one']);
});

/** A new database with the migrations before the given one. */
async function openDatabaseBefore(t: Teardown, migration: string) {
  const old = new URL(url);
  old.pathname = `${old.pathname}_old`;
  await admin.pool.query(`CREATE DATABASE ${old.pathname.slice(1)}`);
  t.teardown(() => admin.pool.query(`DROP DATABASE ${old.pathname.slice(1)} WITH (FORCE)`));
  const names = (await readdir(MIGRATIONS)).filter((name) => name.endsWith('.sql')).sort();
  await migrate(old.href, { count: names.indexOf(migration) });
  const { pool, close } = openPool(old.href, { name: 'old', connections: 1, onError: () => undefined });
  t.teardown(close);
  return { pool, migrateAll: () => migrate(old.href) };
}

t.test('migrations count and name existing rows', async (t) => {
  const { pool, migrateAll } = await openDatabaseBefore(t, '0018_account_usage.sql');
  await pool.query(`
    INSERT INTO accounts (id, name) VALUES ('a', 'ann');
    INSERT INTO plugins (id, owner_id, slug, display_name) VALUES ('p', 'a', 'p', 'P');
    INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
      capabilities, added_capabilities, discovered, registrations) VALUES
      ('v', 'p', '1.0.0', 'published', '', '', 123, '{"name":"Named","description":"Says it"}', '', '{}', '{}', '{}', '{}'),
      ('d', 'p', NULL, 'draft', '', '', 45, '{}', '', '{}', '{}', '{}', '{}');
    UPDATE plugins SET latest_version_id = 'v';
    INSERT INTO installations (id, account_id, plugin_id, version_policy, granted_capabilities, status, hook_order)
      VALUES ('i', 'a', 'p', 'Latest', '{}', 'ready', 1);
    INSERT INTO sessions (id, account_id, agent_id, agent_name) VALUES ('s', 'a', 'x', 'X');
    INSERT INTO session_messages (session_id, account_id, id, role, text, data) VALUES ('s', 'a', 'm', 'user', 'äb', '{"a":1}');
    INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers, body)
      VALUES ('d', 'c', 'i', 'a', 'r', now(), 'POST', 'q', '[]', 'body');
    INSERT INTO events (id, installation_id, account_id, plugin_id, type, data) VALUES ('e', 'i', 'a', 'p', 'x', '{}');
    INSERT INTO media (id, account_id, sha256, media_type, size_bytes) VALUES ('m', 'a', '', 'text/plain', 7);
    INSERT INTO installation_storage (installation_id, key, value, size_bytes) VALUES ('i', 'k', '1', 2);
    CREATE TABLE logs_all PARTITION OF plugin_logs DEFAULT;
    INSERT INTO plugin_logs (id, at, level, message, installation_id, source) VALUES ('l', now(), 'info', 'hello', 'i', 'x');
    CREATE TABLE audit_all PARTITION OF audit DEFAULT;
    INSERT INTO audit (id, at, installation_id, member, outcome, duration_ms) VALUES ('u', now(), 'i', 'x', 'ok', 1)`);
  t.same((await migrateAll())[0], '0018_account_usage');
  const { rows: plugins } = await pool.query('SELECT display_name, description, title FROM plugins');
  t.same(plugins, [{ display_name: 'Named', description: 'Says it', title: 'p named' }], 'named by the frontmatter');
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('b', 'bob')`);
  const { rows: accounts } = await pool.query('SELECT name, issuer, subject FROM accounts ORDER BY id');
  t.same(
    accounts,
    ['ann', 'bob'].map((name) => ({ name, issuer: 'bulkhead', subject: name })),
    'an account from before, and one that the previous release creates',
  );
  const counted = {
    versions: 123,
    drafts: 45,
    blobs: 0,
    transcripts: 500 + 3 + 7 + 300,
    deliveries: 4 + 2 + 1 + 700 + (2 + 700),
    media: 507,
    workspaces: 0,
    storage: 2,
    logs: 405,
    audit: 400,
  };
  const readAll = async () =>
    Object.fromEntries((await readUsage(pool, 'a')).map(({ kind, usedBytes }) => [kind, usedBytes]));
  t.same(await readAll(), counted);
  await pool.query(`DELETE FROM installations; DELETE FROM plugins; DELETE FROM sessions; DELETE FROM plugin_logs`);
  const left = { ...counted, versions: 0, drafts: 0, transcripts: 0, storage: 0, logs: 0 };
  t.same(await readAll(), left, 'cascading deletes are subtracted');
});

await soakTest(
  t,
  'a migration numbers existing calls of tools in the order in which they began, and counts their arguments',
  async (t) => {
    const { pool, migrateAll } = await openDatabaseBefore(t, '0070_turn_pages.sql');
    await pool.query(`
    INSERT INTO accounts (id, name) VALUES ('a', 'ann');
    INSERT INTO sessions (id, account_id, agent_id, agent_name) VALUES ('s', 'a', 'x', 'X');
    INSERT INTO tool_calls (session_id, turn_id, call_id, digest, account_id, name, arguments, started_at) VALUES
      ('s', 't', 'second', '', 'a', 'x', '{"a":1}', now()), ('s', 't', 'first', '', 'a', 'x', NULL, now() - interval '1 s')`);
    await migrateAll();
    const { rows: calls } = await pool.query('SELECT call_id AS id FROM tool_calls ORDER BY position');
    t.same(calls, [{ id: 'first' }, { id: 'second' }]);
    const readSums = async () => {
      const sums = await pool.query(`SELECT usage_bytes('a', 'transcripts')::int AS counted,
      (SELECT sum(stored_bytes) FROM stored_rows WHERE account_id = 'a')::int AS stored`);
      return sums.rows[0];
    };
    const bytes = 500 + 2 * 600 + 7;
    t.same(await readSums(), { counted: bytes, stored: bytes });
    await pool.query('DELETE FROM sessions');
    t.match(await readSums(), { counted: 0 });
  },
);

await soakTest(
  t,
  'rows from before their judged texts, settings and secrets counted are counted once they change',
  async (t) => {
    const { pool, migrateAll } = await openDatabaseBefore(t, '0088_judged_bytes.sql');
    await pool.query(`
    INSERT INTO accounts (id, name) VALUES ('a', 'ann');
    INSERT INTO plugins (id, owner_id, slug, display_name) VALUES ('p', 'a', 'p', 'P');
    INSERT INTO installations (id, account_id, plugin_id, version_policy, granted_capabilities, status, hook_order, settings)
      VALUES ('i', 'a', 'p', 'Latest', '{}', 'ready', 1, '{"old": "value"}');
    INSERT INTO installation_secrets (installation_id, name, key_id, sealed) VALUES ('i', 's', 'k', 'sealed'), ('i', 'u', 'k', 'sealed');
    INSERT INTO sessions (id, account_id, agent_id, agent_name) VALUES ('s', 'a', 'x', 'X');
    INSERT INTO turns (session_id, id, account_id, sender, trigger, digest, system_prompt, model, runtime, lease_seconds, lease_until)
      VALUES ('s', 't', 'a', 'x', 'user', '', '', '', 'r', 9, now());
    INSERT INTO turn_outputs (session_id, turn_id, id, account_id, pieces, is_held) VALUES ('s', 't', 'o', 'a', 1, false);
    INSERT INTO turn_pieces (session_id, turn_id, output_id, piece, account_id, text, is_shown, judged_text) VALUES
      ('s', 't', 'o', 0, 'a', 'said', true, 'judged'), ('s', 't', 'o', 1, 'a', 'said', true, NULL)`);
    await migrateAll();
    const readSums = async (kind: string) => {
      const sums = await pool.query(
        `SELECT usage_bytes('a', $1)::int AS counted,
        (SELECT coalesce(sum(stored_bytes), 0) FROM stored_rows WHERE account_id = 'a' AND kind = $1)::int AS stored`,
        [kind],
      );
      t.equal(sums.rows[0].counted, sums.rows[0].stored, kind);
      return sums.rows[0].counted;
    };
    const before = 500 + 2_000 + 1_000 + 2 * 304;
    t.equal(await readSums('transcripts'), before);
    t.equal(await readSums('storage'), 0);
    await pool.query(`
    UPDATE turn_pieces SET judged_text = 'changed' WHERE piece = 1;
    UPDATE turn_outputs SET attachments = '[1]', pieces = 2;
    UPDATE installations SET settings = '{"a": "b"}';
    UPDATE installation_secrets SET sealed = 'sealed again' WHERE name = 's'`);
    t.equal(await readSums('transcripts'), before + 7 + 3);
    t.equal(await readSums('storage'), 10 + 12 + 300);
    await pool.query('DELETE FROM sessions; DELETE FROM installations');
    t.equal(await readSums('transcripts'), 0);
    t.equal(await readSums('storage'), 0);
  },
);

await soakTest(t, 'a migration marks the existing messages that may wait for an answer', async (t) => {
  const { pool, migrateAll } = await openDatabaseBefore(t, '0071_waiting_messages.sql');
  await pool.query(`
    INSERT INTO accounts (id, name) VALUES ('a', 'ann');
    INSERT INTO sessions (id, account_id, agent_id, agent_name) VALUES ('s', 'a', 'x', 'X');
    INSERT INTO session_messages (session_id, account_id, id, role, text, data) VALUES
      ('s', 'a', 'new', 'user', '', '{"zero":"\\u0000"}'), ('s', 'a', 'left', 'user', '', NULL), ('s', 'a', 'answered', 'user', '', NULL),
      ('s', 'a', 'opened', 'user', '', '{"turnId":"opened"}'), ('s', 'a', 'reply', 'assistant', '', NULL);
    INSERT INTO turns (session_id, id, account_id, state, sender, trigger, digest, system_prompt, model, runtime, lease_seconds, lease_until)
      SELECT 's', id, 'a', state, '', 'user', '', '', '', 'r', 1, now()
        FROM (VALUES ('left', 'open'), ('answered', 'ended'), ('opened', 'open')) AS v(id, state)`);
  await migrateAll();
  const listWaiting = async () => (await pageInbox(pool, inbox)).items.map(({ message }) => message.id);
  const inbox = { accountId: 'a', agentId: null, sessionId: null, runtime: 'r', limit: 10 };
  t.same(await listWaiting(), ['new', 'left']);
  const { rows } = await pool.query('SELECT id FROM session_messages WHERE waits ORDER BY position');
  t.same(rows, [{ id: 'new' }, { id: 'left' }]);
  // As the release before it does.
  await pool.query(
    `INSERT INTO session_messages (session_id, account_id, id, role, text) VALUES ('s', 'a', 'late', 'user', '')`,
  );
  t.same(await listWaiting(), ['new', 'left', 'late']);
  await pool.query(`UPDATE turns SET state = 'ended'`);
  t.same(await listWaiting(), ['new', 'late']);
});

await soakTest(t, 'a migration counts the texts of existing sessions and the changes of sessions', async (t) => {
  const { pool, migrateAll } = await openDatabaseBefore(t, '0073_counted_sessions.sql');
  await pool.query(`
    INSERT INTO accounts (id, name) VALUES ('a', 'ann');
    INSERT INTO sessions (id, account_id, agent_id, agent_name, key) VALUES
      ('s', 'a', 'x', 'X', NULL), ('long', 'a', repeat('ä', 100), repeat('n', 100), repeat('k', 200));
    INSERT INTO session_changes (account_id, session_id, agent_id, type) VALUES ('a', 'gone', 'agent', 'deleted');
    INSERT INTO media (id, account_id, sha256, media_type, size_bytes) VALUES ('m', 'a', '', 'text/plain', 7);
    INSERT INTO session_media (session_id, media_id) VALUES ('s', 'm')`);
  await migrateAll();
  const readSums = async () => {
    const sums = await pool.query(`SELECT usage_bytes('a', 'transcripts')::int AS counted,
      (SELECT sum(stored_bytes) FROM stored_rows WHERE account_id = 'a' AND kind = 'transcripts')::int AS stored`);
    return sums.rows[0];
  };
  const both = (bytes: number) => ({ counted: bytes, stored: bytes });
  const long = 300 + 2 * 200 + 100 + 2 * 200;
  t.same(await readSums(), both(500 + long + 305));
  // As the release before it does.
  await pool.query(`INSERT INTO session_media (session_id, media_id) VALUES ('long', 'm')`);
  t.same(await readSums(), both(500 + long + 305 + 300));
  await pool.query('DELETE FROM sessions');
  t.same(await readSums(), both(305));
});

await soakTest(
  t,
  'a migration removes capabilities besides hooks from the yanked versions that gave up their files',
  async (t) => {
    const { pool, migrateAll } = await openDatabaseBefore(t, '0081_yanked_capabilities.sql');
    const capabilities = '{compaction.summarize,host.http:a.example.com,middleware.toolCall,tools.a}';
    await pool.query(`
    INSERT INTO accounts (id, name) VALUES ('a', 'ann');
    INSERT INTO plugins (id, owner_id, slug, display_name) VALUES ('p', 'a', 'p', 'P');
    INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, stored_bytes, manifest, readme,
      capabilities, added_capabilities, discovered, registrations)
      SELECT id, 'p', id, status, '', '', 1, bytes, '{}', '', '${capabilities}', '${capabilities}', '{}', '{}'
        FROM (VALUES ('1', 'yanked', 0), ('2', 'yanked', 1), ('3', 'published', 1)) AS v(id, status, bytes)`);
    await migrateAll();
    const { rows } = await pool.query(
      'SELECT cardinality(capabilities) AS all, cardinality(added_capabilities) AS added FROM versions ORDER BY id',
    );
    t.same(rows, [
      { all: 2, added: 0 },
      { all: 4, added: 4 },
      { all: 4, added: 4 },
    ]);
    const { rows: kept } = await pool.query(`SELECT capabilities FROM versions WHERE id = '1'`);
    t.same(kept, [{ capabilities: ['compaction.summarize', 'middleware.toolCall'] }]);
  },
);
