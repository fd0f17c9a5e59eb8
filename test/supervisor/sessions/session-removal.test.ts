/** Chats that end with an agent, a channel or an installation: plugins are told of each, and none is left behind. */
import { randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { removeAgent } from '../../../db/accounts/agents.ts';
import { removeInstallation } from '../../../db/installations/removals.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { bindConversation, deleteConversations, lockChannelAgent } from '../../../db/sessions/conversations.ts';
import { lockChats } from '../../../db/sessions/session-removal.ts';
import { createSession } from '../../../db/sessions/sessions.ts';
import { asCommand, eventually, type Installed, runCommand, startWorld, type World } from '../world.ts';

const ROUNDS = 100;
const capabilities = ['host.agents'];
const code = asCommand('return host.agents[args.call](...args.given);');
const EARS = `
const note = (event) => host.log('heard ' + event.type, event.data);
events.sessionStarted = note;
events.sessionDeleted = note;
`;
t.setTimeout(120_000);

interface Heard {
  readonly type: string;
  readonly data: { readonly sessionId: string; readonly agentId: string };
}
const toldOf = async ({ pool }: World, { installationId }: Installed): Promise<Heard[]> =>
  (await pool.query('SELECT type, data FROM events WHERE installation_id = $1 ORDER BY id', [installationId])).rows;
const sessionIds = async ({ pool }: World): Promise<string[]> =>
  (await pool.query('SELECT id FROM sessions ORDER BY id')).rows.map(({ id }) => id);

/** Another installation of the same version, as a row that is being uninstalled. */
async function addLeaving({ pool }: World, like: Installed): Promise<string> {
  const id = randomUUIDv7();
  await pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities,
       status, hook_order) VALUES ($1, $2, $3, 'Latest', $4, '{}', 'uninstalling', 9)`,
    [id, like.accountId, like.pluginId, like.versionId],
  );
  return id;
}
async function addAgent({ pool }: World, accountId: string, madeBy: string): Promise<string> {
  const id = randomUUIDv7();
  await pool.query(
    `INSERT INTO agents (id, account_id, name, instructions, made_by, size_bytes) VALUES ($1, $2, 'A', '', $3, 1)`,
    [id, accountId, madeBy],
  );
  return id;
}

t.test('a first message starts a session, a removed agent ends it, and plugins hear of both', async (t) => {
  const world = await startWorld(t);
  const ears = await world.install({ slug: 'ears', code: EARS });
  const bobs = await world.install({ slug: 'bobs', account: 'bob', code: EARS });
  await world.install({ slug: 'one', capabilities, code });
  const session = await world.session();
  const one = (call: string, ...given: unknown[]) => runCommand(world, 'one', { call, given }, { session });
  const { id: agentId } = await one('create', { name: 'Helper' });
  await Promise.all([one('send', agentId, 'hi'), one('send', agentId, 'you')]);
  const [own, started, ...more] = await toldOf(world, ears);
  t.same(more, [], 'two first messages start one session');
  t.match(own, { type: 'sessionStarted', data: { sessionId: session } });
  t.match(started, { type: 'sessionStarted', data: { agentId, channelId: null } });
  const chat = started?.data.sessionId ?? '';
  t.equal((await world.call('GET', `/sessions/${chat}`)).status, 200, 'it is in memory now');
  await one('remove', agentId);
  t.match((await toldOf(world, ears)).slice(2), [{ type: 'sessionDeleted', data: { sessionId: chat, agentId } }]);
  await eventually(async () => (await world.call('GET', `/sessions/${chat}`)).status === 404);
  const delivered = async () =>
    (
      await world.pool.query(`SELECT 1 FROM events WHERE state = 'delivered' AND installation_id = $1`, [
        ears.installationId,
      ])
    ).rowCount === 3;
  await eventually(delivered, 30_000);
  t.same(await toldOf(world, bobs), [], 'another account’s plugin hears nothing');
});

t.test('chats of an uninstalled plugin’s channels and agents', async (t) => {
  const world = await startWorld(t);
  const ears = await world.install({ slug: 'ears', code: EARS });
  await world.install({ slug: 'paused', code: EARS, status: 'paused' });
  const leaving = await world.install({ slug: 'leaving', code: EARS });
  const { accountId, installationId } = leaving;
  await world.pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [installationId]);
  const agentId = await addAgent(world, accountId, installationId);
  const of = { accountId, agentName: 'A', channelId: null };
  const [chat, kept] = [
    await createSession(world.pool, { ...of, agentId }),
    await createSession(world.pool, { ...of, agentId: 'x' }),
  ];
  await world.pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ('c', $1, $2, 'c', 'r')`,
    [installationId, accountId],
  );
  // More than one statement takes.
  const COUNT = 2_500;
  await world.pool.query(
    `WITH made AS (INSERT INTO sessions (id, account_id, agent_id, agent_name, channel_id)
       SELECT 'k' || n, $1, 'c', 'c', 'c' FROM generate_series(1, $2) n RETURNING id)
     INSERT INTO conversations (channel_id, conversation_key, session_id) SELECT 'c', id, id FROM made`,
    [accountId, COUNT],
  );
  await removeInstallation(world.pool, world.supervisor.queues, installationId);
  t.same(await sessionIds(world), [kept.id]);
  const told = await toldOf(world, ears);
  t.equal(told.length, COUNT + 1);
  t.equal(new Set(told.map(({ data }) => data.sessionId)).size, COUNT + 1);
  t.match(
    told.find(({ data }) => data.sessionId === chat.id),
    { type: 'sessionDeleted', data: { agentId } },
  );
  const others = await world.pool.query('SELECT 1 FROM events WHERE installation_id <> $1', [ears.installationId]);
  t.equal(others.rowCount, 0, 'neither the one that left nor one that is paused is told');
});

t.test('a conversation that starts while its channel goes is not left behind', async (t) => {
  const world = await startWorld(t);
  const of = await world.install({ slug: 'desk', code: EARS });
  const { accountId, installationId } = of;
  const { pool, supervisor } = world;
  await pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ('c', $1, $2, 'c', 'r')`,
    [installationId, accountId],
  );
  const { promise: held, resolve: isHeld } = Promise.withResolvers<void>();
  const { promise: going, resolve: goOn } = Promise.withResolvers<void>();
  const starting = inTransaction(pool, async (tx) => {
    const agent = await lockChannelAgent(tx, 'c');
    isHeld();
    await going;
    const session = await createSession(tx, { accountId, agentId: agent?.id ?? '', agentName: 'A', channelId: 'c' });
    await bindConversation(tx, { channelId: 'c', key: 'k', sessionId: session.id });
  });
  await held;
  const ending = inTransaction(pool, async (tx) => {
    await lockChats(tx, accountId);
    await deleteConversations(tx, supervisor.queues, { accountId, installationId, channelId: 'c' });
    await tx.query(`DELETE FROM channels WHERE id = 'c'`);
  });
  const waits = async () =>
    (
      await pool.query(
        `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM channels%'`,
      )
    ).rows.length > 0;
  await eventually(waits);
  goOn();
  await Promise.all([starting, ending]);
  t.same(await sessionIds(world), []);
  t.equal(await inTransaction(pool, (tx) => lockChannelAgent(tx, 'c')), null);
});

t.test('messages, removed agents and uninstalls at once leave no chat without its agent', async (t) => {
  const world = await startWorld(t);
  const ears = await world.install({ slug: 'ears', code: EARS });
  await world.install({ slug: 'one', capabilities, code });
  const { pool, supervisor } = world;
  const { accountId } = ears;
  const session = await world.session();
  const outcomes = new Map<string, number>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const installationId = await addLeaving(world, ears);
    const agentId = await addAgent(world, accountId, installationId);
    const remove = () => removeAgent(pool, supervisor.queues, { accountId }, agentId);
    const uninstall = () => removeInstallation(pool, supervisor.queues, installationId);
    const send = () => runCommand(world, 'one', { call: 'send', given: [agentId, 'hi'] }, { session });
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
  t.same(await sessionIds(world), [session]);
  t.equal((await pool.query('SELECT 1 FROM agents')).rowCount, 0);
  const fine = [
    'id',
    'host.agents.send: there is no such agent',
    'host.agents.send: the session was deleted meanwhile',
  ];
  t.same(
    [...outcomes.keys()].filter((outcome) => !fine.includes(outcome)),
    [],
    'no answer is a fault of ours',
  );
  t.comment(Object.fromEntries(outcomes));
  const told = await toldOf(world, ears);
  const of = (type: string) =>
    told
      .filter((one) => one.type === type)
      .map(({ data }) => data.sessionId)
      .filter((id) => id !== session)
      .sort();
  t.same(of('sessionDeleted'), of('sessionStarted'), 'every start has its end');
});
