/** Sessions are deleted with their agent, channel or installation, and plugins get an event for each. */
import { randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { deleteAgent } from '../../../db/accounts/agents.ts';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import type { Queues } from '../../../db/jobs/queues.ts';
import { inTransaction, openPool } from '../../../db/postgres/pool.ts';
import { SWEEP_BATCH } from '../../../db/postgres/rows.ts';
import { bindConversation, deleteChannelWithSessions, lockChannelAgent } from '../../../db/sessions/conversations.ts';
import { emptyForClear } from '../../../db/sessions/session-removal.ts';
import { createSession } from '../../../db/sessions/sessions.ts';
import { removeInTime } from '../../../service/http/removal-time.ts';
import { eventually } from '../../runner/eventually.ts';
import { amount, soakTest } from '../../runner/soak.ts';
import {
  asCommand,
  type Installed,
  runCommand,
  type SupervisorFixture,
  startSupervisorFixture,
  withOwnSlugs,
} from '../supervisor-fixture.ts';

/** Each way of ending a session three times. */
const ROUNDS = amount({ quick: 9, soak: 1_000 });
const capabilities = ['host.agents'];
const code = asCommand('return host.agents[args.call](...args.given);');
const EARS = `
const note = (event) => host.log('heard ' + event.type, event.data);
events.sessionStarted = note;
events.sessionDeleted = note;
`;

interface Heard {
  readonly type: string;
  readonly data: { readonly sessionId: string; readonly agentId: string };
}
const readHeard = async ({ pool }: SupervisorFixture, { installationId }: Installed): Promise<Heard[]> =>
  (await pool.query('SELECT type, data FROM events WHERE installation_id = $1 ORDER BY id', [installationId])).rows;
const sessionIds = async ({ pool }: SupervisorFixture, ...accountIds: string[]): Promise<string[]> =>
  (await pool.query('SELECT id FROM sessions WHERE account_id = ANY ($1) ORDER BY id', [accountIds])).rows.map(
    ({ id }) => id,
  );

/** Another installation of the same version, as a row that is being uninstalled. */
async function addLeaving({ pool }: SupervisorFixture, like: Installed): Promise<string> {
  const id = randomUUIDv7();
  await pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities,
       status, hook_order) VALUES ($1, $2, $3, 'Latest', $4, '{}', 'uninstalling', 9)`,
    [id, like.accountId, like.pluginId, like.versionId],
  );
  return id;
}
async function addAgent({ pool }: SupervisorFixture, accountId: string, madeBy: string): Promise<string> {
  const id = randomUUIDv7();
  await pool.query(
    `INSERT INTO agents (id, account_id, name, instructions, made_by, size_bytes) VALUES ($1, $2, 'A', '', $3, 1)`,
    [id, accountId, madeBy],
  );
  return id;
}

const addSessions = ({ pool }: SupervisorFixture, accountId: string, agentId: string, count: number) =>
  pool.query(
    `INSERT INTO sessions (id, account_id, agent_id, agent_name)
     SELECT $2 || n, $1, $2, 'A' FROM generate_series(1, $3::int) n`,
    [accountId, agentId, count],
  );

/** Of the tests that add no triggers. */
const shared = await startSupervisorFixture(t);
const openAccount = () => withOwnSlugs(shared.withNewAccount());

t.test('a first message starts a session, a removed agent ends it, and plugins hear of both', async (t) => {
  const fixture = openAccount();
  const ears = await fixture.install({ slug: 'ears', code: EARS });
  const bobs = await fixture.install({ slug: 'bobs', account: 'bob', code: EARS });
  const { slug } = await fixture.install({ slug: 'one', capabilities, code });
  const session = await fixture.session();
  const one = (call: string, ...given: unknown[]) => runCommand(fixture, slug, { call, given }, { session });
  const { id: agentId } = await one('create', { name: 'Helper' });
  await Promise.all([one('send', agentId, 'hi'), one('send', agentId, 'you')]);
  const [own, started, ...more] = await readHeard(fixture, ears);
  t.same(more, [], 'two first messages start one session');
  t.match(own, { type: 'sessionStarted', data: { sessionId: session } });
  t.match(started, { type: 'sessionStarted', data: { agentId, channelId: null } });
  const sessionId = started?.data.sessionId ?? '';
  t.equal((await fixture.call('GET', `/sessions/${sessionId}`)).status, 200, 'it is in memory now');
  await one('remove', agentId);
  t.match((await readHeard(fixture, ears)).slice(2), [{ type: 'sessionDeleted', data: { sessionId, agentId } }]);
  await eventually(async () => (await fixture.call('GET', `/sessions/${sessionId}`)).status === 404);
  const delivered = async () =>
    (
      await fixture.pool.query(`SELECT 1 FROM events WHERE state = 'delivered' AND installation_id = $1`, [
        ears.installationId,
      ])
    ).rowCount === 3;
  await eventually(delivered);
  t.same(await readHeard(fixture, bobs), [], 'another account’s plugin hears nothing');
});

t.test('sessions of an uninstalled plugin’s channels and agents', async (t) => {
  const fixture = openAccount();
  const ears = await fixture.install({ slug: 'ears', code: EARS });
  const paused = await fixture.install({ slug: 'paused', code: EARS, status: 'paused' });
  const leaving = await fixture.install({ slug: 'leaving', code: EARS });
  const { accountId, installationId } = leaving;
  const agentId = await addAgent(fixture, accountId, installationId);
  const of = { accountId, agentName: 'A', channelId: null };
  const [session, kept] = [
    await createSession(fixture.pool, { ...of, agentId }),
    await createSession(fixture.pool, { ...of, agentId: 'x' }),
  ];
  await fixture.pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ('c', $1, $2, 'c', 'r')`,
    [installationId, accountId],
  );
  // More than one statement takes.
  const COUNT = 2_500;
  await fixture.pool.query(
    `WITH made AS (INSERT INTO sessions (id, account_id, agent_id, agent_name, channel_id)
       SELECT 'k' || n, $1, 'c', 'c', 'c' FROM generate_series(1, $2) n RETURNING id)
     INSERT INTO conversations (channel_id, conversation_key, session_id) SELECT 'c', id, id FROM made`,
    [accountId, COUNT],
  );
  // Last: the supervisor removes such an installation too, when it looks for interrupted removals.
  await fixture.pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [installationId]);
  await removeInstallation(fixture.pool, fixture.supervisor.queues, installationId);
  t.same(await sessionIds(fixture, accountId), [kept.id]);
  const heard = await readHeard(fixture, ears);
  t.equal(heard.length, COUNT + 1);
  t.equal(new Set(heard.map(({ data }) => data.sessionId)).size, COUNT + 1);
  t.match(
    heard.find(({ data }) => data.sessionId === session.id),
    { type: 'sessionDeleted', data: { agentId } },
  );
  const others = await fixture.pool.query(
    `SELECT installation_id AS id, state, count(*)::int AS count FROM events
      WHERE installation_id <> $1 AND account_id = $2 GROUP BY 1, 2`,
    [ears.installationId, accountId],
  );
  const waits = [{ id: paused.installationId, state: 'pending', count: COUNT + 1 }];
  t.same(others.rows, waits, 'they wait for the paused plugin, and the removed one gets none');
});

t.test('a removal that was interrupted is completed when it is repeated, and each session has one event', async (t) => {
  const fixture = openAccount();
  const { pool, supervisor } = fixture;
  const ears = await fixture.install({ slug: 'ears', code: EARS, status: 'paused' });
  const { accountId, installationId } = ears;
  const agentId = await addAgent(fixture, accountId, installationId);
  const COUNT = 2_500;
  await addSessions(fixture, accountId, agentId, COUNT);
  const interruption = new AbortController();
  let batches = 0;
  const queues: Queues = {
    ...supervisor.queues,
    sendToGroups: (...given) => {
      batches += 1;
      if (batches === 2) interruption.abort(new Error('interrupted'));
      return supervisor.queues.sendToGroups(...given);
    },
  };
  await t.rejects(deleteAgent(pool, queues, { accountId }, agentId, interruption.signal), { message: 'interrupted' });
  const left = await sessionIds(fixture, accountId);
  t.ok(left.length > 0 && left.length < COUNT, `${left.length} sessions are left`);
  t.equal((await readHeard(fixture, ears)).length, COUNT - left.length);
  t.ok(await deleteAgent(pool, supervisor.queues, { accountId }, agentId), 'the agent was still there');
  t.same(await sessionIds(fixture, accountId), []);
  const heard = (await readHeard(fixture, ears)).map(({ data }) => data.sessionId);
  t.equal(heard.length, COUNT);
  t.equal(new Set(heard).size, COUNT);
  t.notOk(await deleteAgent(pool, supervisor.queues, { accountId }, agentId));
});

soakTest(t, 'a conversation that starts during a disconnect is removed', async (t) => {
  const fixture = openAccount();
  const of = await fixture.install({ slug: 'desk', code: EARS });
  const { accountId, installationId } = of;
  const { pool, supervisor } = fixture;
  await pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ('d', $1, $2, 'd', 'd')`,
    [installationId, accountId],
  );
  const { promise: held, resolve: isHeld } = Promise.withResolvers<void>();
  const { promise: going, resolve: goOn } = Promise.withResolvers<void>();
  const starting = inTransaction(pool, async (tx) => {
    const agent = await lockChannelAgent(tx, 'd');
    isHeld();
    await going;
    const session = await createSession(tx, { accountId, agentId: agent?.id ?? '', agentName: 'A', channelId: 'd' });
    await bindConversation(tx, { channelId: 'd', key: 'k', sessionId: session.id });
  });
  await held;
  const ending = deleteChannelWithSessions(pool, supervisor.queues, { accountId, installationId, channelId: 'd' });
  const waits = async () =>
    (
      await pool.query(
        `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM channels%'`,
      )
    ).rows.length > 0;
  await eventually(waits);
  goOn();
  await Promise.all([starting, ending]);
  t.same(await sessionIds(fixture, accountId), []);
  t.equal(await inTransaction(pool, (tx) => lockChannelAgent(tx, 'd')), null);
});

t.test('no way of removing sessions deletes many rows in one statement', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const { pool, supervisor } = fixture;
  const MESSAGES = 2 * SWEEP_BATCH + 1;
  const leaving = await fixture.install({ slug: 'leaving', code: EARS });
  const { accountId, installationId } = leaving;
  await pool.query(`CREATE TABLE deletions (rows integer);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO deletions SELECT count(*) FROM gone; RETURN NULL; END';
    CREATE TRIGGER noted AFTER DELETE ON session_messages REFERENCING OLD TABLE AS gone
      FOR EACH STATEMENT EXECUTE FUNCTION note()`);
  for (const table of ['turns', 'turn_outputs', 'turn_pieces', 'tool_calls'])
    await pool.query(`CREATE TRIGGER noted AFTER DELETE ON ${table} REFERENCING OLD TABLE AS gone
      FOR EACH STATEMENT EXECUTE FUNCTION note()`);
  await pool.query(`CREATE TRIGGER noted_changes AFTER UPDATE ON turns REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note()`);
  await pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ('c', $1, $2, 'c', 'r')`,
    [installationId, accountId],
  );
  const fill = async (agentId: string): Promise<string> => {
    const { id } = await createSession(pool, { accountId, agentId, agentName: 'A', channelId: null });
    await pool.query(
      `INSERT INTO session_messages (session_id, account_id, id, role, text)
       SELECT $1, $2, 'm' || n, 'user', 'x' FROM generate_series(1, $3::int) n`,
      [id, accountId, MESSAGES],
    );
    return id;
  };
  /** Also the rows of its turns, which have ended. */
  const fillAll = async (agentId: string): Promise<string> => {
    const id = await fill(agentId);
    for (const sql of [
      `INSERT INTO turns (session_id, id, account_id, sender, trigger, digest, system_prompt, model, runtime, lease_seconds, lease_until, state)
       SELECT $1, 't' || n, $2, 'user', 'user', '', '', '', 'r', 1, now(), 'ended'`,
      `INSERT INTO turn_outputs (session_id, turn_id, id, account_id, pieces, is_held) SELECT $1, 't' || n, 'o', $2, 1, false`,
      `INSERT INTO turn_pieces (session_id, turn_id, output_id, piece, account_id, text, is_shown) SELECT $1, 't' || n, 'o', 1, $2, '', false`,
      `INSERT INTO tool_calls (session_id, turn_id, call_id, digest, account_id, name) SELECT $1, 't' || n, 'c', '', $2, 'x'`,
    ])
      await pool.query(`${sql} FROM generate_series(1, $3::int) n`, [id, accountId, MESSAGES]);
    return id;
  };
  const inChannel = async (): Promise<string> => {
    const sessionId = await fillAll('c');
    await inTransaction(pool, (tx) => bindConversation(tx, { channelId: 'c', key: sessionId, sessionId }));
    return sessionId;
  };
  const [one, of] = [
    await addAgent(fixture, accountId, installationId),
    await addAgent(fixture, accountId, installationId),
  ];
  const removals: Readonly<Record<string, () => Promise<unknown>>> = {
    'DELETE /sessions/{id}': async () => fixture.call('DELETE', `/sessions/${await fillAll('x')}`),
    clear: async () => fixture.call('POST', `/sessions/${await fillAll('x')}/clear`, { reason: 'r', by: 'user' }),
    'of an agent': async () => {
      await fillAll(one);
      await deleteAgent(pool, supervisor.queues, { accountId }, one);
    },
    'of an installation': async () => {
      await Promise.all([fillAll(of), inChannel()]);
      await pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [installationId]);
      await removeInstallation(pool, supervisor.queues, installationId);
    },
  };
  for (const [name, remove] of Object.entries(removals)) {
    await remove();
    const { rows } = await pool.query<{ most: number }>('SELECT max(rows) AS most FROM deletions');
    t.ok((rows[0]?.most ?? 0) <= SWEEP_BATCH, `${name}: ${rows[0]?.most} rows`);
    t.equal((await pool.query('SELECT 1 FROM session_messages')).rowCount, 0);
    await pool.query('TRUNCATE deletions');
  }
});

soakTest(t, 'a clear that is interrupted after its batches leaves what belongs to open turns', async (t) => {
  const fixture = openAccount();
  const { pool } = fixture;
  const { accountId } = await fixture.install({ slug: 'ears', code: EARS });
  const { id } = await createSession(pool, { accountId, agentId: 'x', agentName: 'A', channelId: null });
  const ENDED = SWEEP_BATCH + 1;
  await pool.query(
    `INSERT INTO turns (session_id, id, account_id, sender, trigger, digest, system_prompt, model, runtime, lease_seconds, lease_until, state)
     SELECT $1, 't' || n, $2, 'user', 'user', '', '', '', 'r', 1, now(), CASE n WHEN 1 THEN 'open' WHEN 2 THEN 'judging' ELSE 'ended' END
       FROM generate_series(1, $3::int) n`,
    [id, accountId, ENDED + 2],
  );
  for (const sql of [
    `INSERT INTO turn_outputs (session_id, turn_id, id, account_id, pieces, is_held) SELECT $1, id, 'o', $2, 1, false`,
    `INSERT INTO turn_pieces (session_id, turn_id, output_id, piece, account_id, text, is_shown) SELECT $1, id, 'o', 1, $2, '', false`,
    `INSERT INTO tool_calls (session_id, turn_id, call_id, digest, account_id, name) SELECT $1, id, 'c', '', $2, 'x'`,
  ])
    await pool.query(`${sql} FROM turns WHERE session_id = $1`, [id, accountId]);
  const readStates = async () =>
    (
      await pool.query('SELECT state, count(*)::int AS count FROM turns WHERE session_id = $1 GROUP BY 1 ORDER BY 1', [
        id,
      ])
    ).rows;
  const readTurnIds = async (table: string) =>
    (await pool.query(`SELECT turn_id AS id FROM ${table} WHERE session_id = $1 ORDER BY 1`, [id])).rows.map(
      (row) => row.id,
    );
  const tables = ['turn_outputs', 'turn_pieces', 'tool_calls'];
  await emptyForClear(pool, { accountId, id });
  t.same(await readStates(), [
    { state: 'cleared', count: ENDED },
    { state: 'judging', count: 1 },
    { state: 'open', count: 1 },
  ]);
  for (const table of tables) t.same(await readTurnIds(table), ['t1', 't2'], table);
  t.equal((await fixture.call('POST', `/sessions/${id}/clear`, { reason: 'r', by: 'user' })).status, 200);
  t.same(await readStates(), [{ state: 'cleared', count: ENDED + 2 }]);
  for (const table of tables) t.same(await readTurnIds(table), [], table);
});

soakTest(t, 'removals of an account take turns, and one that waits for another ends in its time', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const { pool, supervisor } = fixture;
  const { accountId, installationId } = await fixture.install({ slug: 'ears', code: EARS });
  await pool.query(`CREATE TABLE deletions (place serial, session text);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO deletions (session) SELECT DISTINCT session_id FROM gone; RETURN NULL; END';
    CREATE TRIGGER noted AFTER DELETE ON session_messages REFERENCING OLD TABLE AS gone
      FOR EACH STATEMENT EXECUTE FUNCTION note()`);
  const begin = async () => {
    const agentId = await addAgent(fixture, accountId, installationId);
    const { id } = await createSession(pool, { accountId, agentId, agentName: 'A', channelId: null });
    await pool.query(
      `INSERT INTO session_messages (session_id, account_id, id, role, text)
       SELECT $1, $2, 'm' || n, 'user', 'x' FROM generate_series(1, $3::int) n`,
      [id, accountId, 2 * SWEEP_BATCH + 1],
    );
    const remove = (signal?: AbortSignal) => deleteAgent(removing, supervisor.queues, { accountId }, agentId, signal);
    return { id, remove };
  };
  // Only removals use its connections, so that the last query of each is known.
  const { pool: removing, close } = openPool(fixture.url, { name: 'removals', connections: 2, onError: t.error });
  t.teardown(close);
  const [first, second] = [await begin(), await begin()];
  const holder = await pool.connect();
  t.teardown(() => holder.release());
  await holder.query('BEGIN; LOCK TABLE session_messages IN SHARE MODE');
  const isThere = async (where: string, since: string) =>
    (
      await pool.query(
        `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'removals' AND query_start > $1 AND ${where}`,
        [since],
      )
    ).rowCount !== 0;
  const readClock = async (): Promise<string> =>
    (await pool.query('SELECT clock_timestamp()::text AS now')).rows[0].now;
  const begunAt = await readClock();
  const removingFirst = first.remove();
  await eventually(() => isThere(`wait_event_type = 'Lock' AND query LIKE '%DELETE FROM session_messages%'`, begunAt));
  await t.rejects(removeInTime(second.remove, 10), { code: 'unavailable', message: /takes longer than 0\.01 s/ });
  const againAt = await readClock();
  const removingSecond = second.remove();
  // Its last query before it waits for its turn.
  await eventually(() => isThere(`state = 'idle' AND query LIKE '%FROM session_messages%OFFSET%'`, againAt));
  await holder.query('COMMIT');
  t.same(await Promise.all([removingFirst, removingSecond]), [true, true]);
  const { rows } = await pool.query('SELECT session FROM deletions ORDER BY place');
  const turn = [first.id, second.id];
  t.same(
    rows.map(({ session }) => session),
    [...turn, ...turn, ...turn],
  );
});

soakTest(t, 'messages, removed agents and uninstalls at once leave no session without its agent', async (t) => {
  const { pool, supervisor } = shared;
  const ears: Installed[] = [];
  const begin = async () => {
    const fixture = shared.withNewAccount();
    const ear = await fixture.install({ slug: `ears-${fixture.account}`, code: EARS });
    ears.push(ear);
    const slug = `one-${fixture.account}`;
    await fixture.install({ slug, capabilities, code });
    return { fixture, ear, slug, accountId: ear.accountId, session: await fixture.session() };
  };
  let account = await begin();
  const sessions = [account.session];
  const outcomes = new Map<string, number>();
  for (let round = 0; round < ROUNDS; round += 1) {
    // The plugins of one account send 120 messages a minute.
    if (round % 100 === 99) {
      account = await begin();
      sessions.push(account.session);
    }
    const { fixture, ear, slug, accountId, session } = account;
    const installationId = await addLeaving(fixture, ear);
    const agentId = await addAgent(fixture, accountId, installationId);
    const remove = () => deleteAgent(pool, supervisor.queues, { accountId }, agentId);
    const uninstall = () => removeInstallation(pool, supervisor.queues, installationId);
    const send = () => runCommand(fixture, slug, { call: 'send', given: [agentId, 'hi'] }, { session });
    const turns = [send, ...(round % 3 === 0 ? [remove] : round % 3 === 1 ? [uninstall] : [remove, uninstall])];
    const [sent] = await Promise.all(
      round % 2 === 0
        ? turns.map((turn) => turn())
        : turns
            .toReversed()
            .map((turn) => turn())
            .toReversed(),
    );
    const outcome = typeof sent === 'string' ? sent : Object.keys(sent as object).join();
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    await uninstall();
  }
  const accountIds = [...new Set(ears.map(({ accountId }) => accountId))];
  t.same(await sessionIds(shared, ...accountIds), sessions.toSorted());
  t.equal((await pool.query('SELECT 1 FROM agents WHERE account_id = ANY ($1)', [accountIds])).rowCount, 0);
  const fine = [
    'id',
    'host.agents.send: the account has no agent with this id',
    'host.agents.send: the session was deleted meanwhile',
  ];
  t.same(
    [...outcomes.keys()].filter((outcome) => !fine.includes(outcome)),
    [],
    'no answer is a fault of the service',
  );
  t.comment(Object.fromEntries(outcomes));
  const heard = (await Promise.all(ears.map((one) => readHeard(shared, one)))).flat();
  const of = (type: string) =>
    heard
      .filter((one) => one.type === type)
      .map(({ data }) => data.sessionId)
      .filter((id) => !sessions.includes(id))
      .sort();
  t.same(of('sessionDeleted'), of('sessionStarted'), 'every start has its end');
});
