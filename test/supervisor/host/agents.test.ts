/** `host.agents`: kept per account, changed only by who made them, written to through `agentMessage`, gone with their maker. */
import t from 'tap';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { openPool, type WritingPool } from '../../../db/postgres/pool.ts';
import type { Session } from '../../../db/sessions/sessions.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { startChain } from '../../../supervisor/calls/chain.ts';
import type { HookRequest } from '../../../supervisor/calls/plugin-port.ts';
import { type AgentMessageDeps, sendAgentMessage } from '../../../supervisor/host/agent-messages.ts';
import { MESSAGE_CHAIN_MAX } from '../../../supervisor/host/message-chains.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { connect } from '../delivery/channels.ts';
import {
  asCommand,
  type Installed,
  openStorageFixture,
  runCommand,
  type SupervisorFixture,
  startSupervisorFixture,
  withOwnSlugs,
  withStartedPlugins,
} from '../supervisor-fixture.ts';

const code = asCommand('return host.agents[args.call](...args.given);');
const capabilities = ['host.agents'];
const as =
  (fixture: SupervisorFixture, slug: string, account = fixture.account) =>
  (call: string, ...given: unknown[]) =>
    runCommand(fixture, `${fixture.account}-${slug}`, { call, given }, { account });
const messages = async ({ pool, account }: SupervisorFixture) =>
  (
    await pool.query(
      `SELECT m.*, s.agent_id, s.agent_name, s.channel_id FROM session_messages m
         JOIN sessions s ON s.id = m.session_id JOIN accounts a ON a.id = s.account_id
        WHERE a.name = $1 ORDER BY position`,
      [account],
    )
  ).rows;

const shared = withStartedPlugins(await startSupervisorFixture(t));
const newAccount = (): SupervisorFixture => withOwnSlugs(shared.withNewAccount());

t.test('agents are the account’s; only their maker changes them', async (t) => {
  const fixture = newAccount();
  const { accountId } = await fixture.install({ slug: 'one', capabilities, code });
  await fixture.install({ slug: 'two', capabilities, code });
  const bob = shared.withNewAccount().account;
  await fixture.install({ slug: 'bobs', account: bob, capabilities, code });
  const [one, two, bobs] = [as(fixture, 'one'), as(fixture, 'two'), as(fixture, 'bobs', bob)];
  const made = await one('create', { name: 'Helper', instructions: 'Help.' });
  t.match(made, { name: 'Helper', instructions: 'Help.', model: null, id: String });
  t.same(await two('list'), [made]);
  t.same(await bobs('list'), []);
  for (const other of [two, bobs]) {
    t.match(await other('update', made.id, { name: 'Mine' }), /created no agent with this id/);
    t.match(await other('remove', made.id), /created no agent with this id/);
  }
  t.match(await bobs('send', made.id, 'hi'), /no agent with this id/);
  t.same(await one('update', made.id, { model: 'm' }), { ...made, model: 'm' });
  t.match(await one('update', made.id, { name: 'a\0' }), /U\+0000/);
  t.match(await one('create', { name: '' }), /agent\.name/);
  const long = { name: 'Long', instructions: 'x'.repeat(250_000) };
  for (let n = 0; n < 4; n += 1) t.match(await one('create', long), { name: 'Long' });
  t.match(await one('create', long), /limit reached/, 'a list fits into one answer');
  const countAgents = async () =>
    (await fixture.pool.query('SELECT 1 FROM agents WHERE account_id = $1', [accountId])).rowCount;
  t.equal(await countAgents(), 5);
  t.equal(await one('remove', made.id), null);
  t.equal(await countAgents(), 4);
});

t.test('a message passes agentMessage, then it is in the agent’s newest session', async (t) => {
  const fixture = newAccount();
  await fixture.install({ slug: 'one', capabilities, code });
  await fixture.install({
    slug: 'guard',
    code: `middleware.agentMessage = (ctx) => {
      if (ctx.message.text === 'bad') ctx.cancel('not this');
      return { message: { text: ctx.message.text + ' from ' + ctx.fromAgentId + ' to ' + ctx.agent.name } };
    };`,
  });
  const one = as(fixture, 'one');
  const { id } = await one('create', { name: 'Helper' });
  const sent = await one('send', id, 'hello');
  t.match(await messages(fixture), [
    {
      id: sent.id,
      role: 'user',
      text: 'hello from agent-1 to Helper',
      agent_id: id,
      agent_name: 'Helper',
      data: { kind: 'agent_message', fromAgentId: 'agent-1', plugin: 'one' },
    },
  ]);
  t.match(await one('send', id, 'bad'), /guard cancelled the operation: not this/);
  await one('send', id, 'again');
  const all = await messages(fixture);
  t.match(
    all.map(({ role }) => role),
    ['user', 'notice', 'user'],
  );
  t.equal(new Set(all.map(({ session_id }) => session_id)).size, 1, 'one session');
  t.match(await one('send', 'nobody', 'hi'), /no agent with this id/);
});

soakTest(t, 'files that a hook adds to a sent or posted message are kept, with the type of their bytes', async (t) => {
  const fixture = newAccount();
  const sender = asCommand(`
    if (args.id) return host.agents.send(args.id, 'a long text');
    return host.session.post('a long text');`);
  await fixture.install({ slug: 'one', capabilities: ['host.agents', 'host.session'], code: sender });
  const move = `async ({ message }) => {
    const { id } = await host.media.put(new TextEncoder().encode(message.text));
    return { message: { text: 'See the file.', attachments: [{ name: 'a', mediaType: 'image/png', mediaId: id }] } };
  }`;
  await fixture.install({
    slug: 'guard',
    capabilities: ['host.media'],
    code: `middleware.inboundMessage = ${move}; middleware.outboundMessage = ${move};`,
  });
  await fixture.install({
    slug: 'later',
    code: `const log = ({ message }) => host.log('asked', message.attachments);
      middleware.inboundMessage = log; middleware.outboundMessage = log;`,
  });
  const agent = await fixture.call('POST', '/sessions', { agentId: 'planner', agentName: 'The planner' });
  t.equal(agent.status, 201);
  await runCommand(fixture, `${fixture.account}-one`, { id: 'planner' });
  await runCommand(fixture, `${fixture.account}-one`, {});
  const attachments = [{ name: 'a', mediaType: 'text/plain', mediaId: String }];
  t.match(await messages(fixture), [
    { role: 'user', text: 'See the file.', agent_id: 'planner', data: { attachments } },
    { role: 'assistant', text: 'See the file.', data: { plugin: 'one', attachments } },
  ]);
  t.match(await fixture.readLog('asked'), [attachments, attachments], 'the next plugin gets the held file');
});

t.test('a message of a plugin comes into no conversation of a channel', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'one', capabilities, code });
  const channel = await connect(fixture, made);
  const agent = { agentId: 'planner', agentName: 'The planner' };
  const { status } = await fixture.call('POST', '/sessions', { ...agent, channelId: channel.id });
  t.equal(status, 201);
  await as(fixture, 'one')('send', 'planner', 'hi');
  t.match(await messages(fixture), [{ text: 'hi', channel_id: null, agent_name: 'The planner' }]);
});

t.test('a message to an agent is judged where it arrives, as one from the sender', async (t) => {
  const fixture = newAccount();
  await fixture.install({ slug: 'one', capabilities, code });
  await fixture.install({
    slug: 'guard',
    code: `middleware.inboundMessage = ({ message, cancel }) => {
      if (message.text === 'bad') cancel('not this');
      return { message: { text: message.text + ' from ' + message.from + ' with ' + message.attachments.length } };
    };`,
  });
  const one = as(fixture, 'one');
  const { id } = await one('create', { name: 'Helper' });
  t.match(await one('send', id, 'bad'), /guard cancelled the operation: not this/);
  const sent = await one('send', id, 'hello');
  t.match(
    (await messages(fixture)).filter(({ role }) => role !== 'notice'),
    [{ id: sent.id, text: 'hello from agent-1 with 0', data: { from: 'agent-1' }, judgement: { outcome: 'changed' } }],
  );
});

t.test('hooks that outlast the call of a message are the last that judge it', async (t) => {
  const call = new AbortController();
  const ran: string[] = [];
  const runHook = async ({ hook, context }: HookRequest) => {
    ran.push(hook);
    call.abort();
    return startChain(context);
  };
  const deps = { otherPlugins: { runHook }, faultPoint: () => undefined } as unknown as AgentMessageDeps;
  const writes = { query: t.fail, connect: t.fail } as unknown as WritingPool;
  const session = { id: 's', accountId: 'a', agentId: 'helper' } as Session;
  const message = { fromAgentId: 'plugin:x', text: 'hello', installationId: 'i', plugin: 'x' };
  await t.rejects(sendAgentMessage(deps, writes, session, message, call.signal), { name: 'AbortError' });
  t.same(ran, ['middleware.agentMessage']);
});

t.test('a message that a plugin posts is judged by the others', async (t) => {
  const fixture = newAccount();
  const posts = `middleware.inboundMessage = async ({ message }) => {
    await host.session.post(message.text).catch((error) => host.log('refused', { why: error.message }));
  };
  middleware.outboundMessage = ({ cancel }) => cancel('its author is not asked');`;
  await fixture.install({ slug: 'poster', capabilities: ['host.session'], code: posts });
  await fixture.install({
    slug: 'guard',
    required: true,
    code: `middleware.outboundMessage = ({ message, cancel }) => {
      if (message.text === 'bad') cancel('not this');
      return { message: { text: message.text + '!' } };
    };`,
  });
  const session = await fixture.session();
  for (const text of ['bad', 'good'])
    await fixture.call('POST', `/sessions/${session}/turns`, { id: text, text, trigger: 'user' });
  const posted = (await messages(fixture)).filter(({ role }) => role === 'assistant');
  t.match(posted, [{ text: 'good!', judgement: { hook: 'outboundMessage', outcome: 'changed' } }]);
  t.equal(posted.length, 1);
  t.match(await fixture.readLog('refused'), [{ why: 'guard cancelled the operation: not this' }]);
});

soakTest(t, 'a hook that posts messages about messages comes to an end', async (t) => {
  const fixture = newAccount();
  for (const slug of ['one', 'two'])
    await fixture.install({
      slug,
      capabilities: ['host.session'],
      code: `middleware.outboundMessage = async ({ message }) => {
        await host.session.post(message.text + '+').catch((error) => host.log('ended', { why: error.message }));
      };`,
    });
  const session = await fixture.session();
  const context = { message: { id: 'm', text: 'x' }, target: 'user' };
  await fixture.call('POST', `/sessions/${session}/hooks/outboundMessage`, { context });
  const longest = Math.max(...(await messages(fixture)).map(({ text }) => text.length - 1));
  t.equal(longest, MESSAGE_CHAIN_MAX);
  t.match(await fixture.readLog('ended'), [{ why: /triggered further messages 3 times/ }]);
});

t.test('a message may take as long as its hooks and the model that one of them asks', async (t) => {
  t.ok(hostCalls['agents.send'].timeoutMs > limits.chainBudgetMs + hostCalls['llm.complete'].timeoutMs);
});

t.test('a hook that answers messages with messages comes to an end', async (t) => {
  const fixture = newAccount();
  await fixture.install({
    slug: 'loop',
    capabilities,
    code: `${code} middleware.agentMessage = async (ctx) => {
      await host.agents.send(ctx.toAgentId, ctx.message.text + '+').catch((error) => host.log('ended', { why: error.message }));
    };`,
  });
  const loop = as(fixture, 'loop');
  const { id } = await loop('create', { name: 'Echo' });
  await loop('send', id, 'x');
  t.same((await messages(fixture)).map(({ text }) => text).sort(), ['x', 'x+', 'x++'].slice(0, MESSAGE_CHAIN_MAX));
  t.match(await fixture.readLog('ended'), [{ why: /triggered further messages 3 times/ }]);
});

/** An installation with an agent that has a session, and another's and the account's own beside it. */
async function withChats(
  pool: SupervisorFixture['pool'],
  { accountId, installationId }: Installed,
  other: Installed,
): Promise<void> {
  for (const [id, by] of [
    ['gone', installationId],
    ['other', other.installationId],
    ['own', null],
  ]) {
    await pool.query(
      `INSERT INTO agents (id, account_id, name, instructions, made_by, size_bytes) VALUES ($1, $2, $1, '', $3, 1)`,
      [id, accountId, by],
    );
    await pool.query(`INSERT INTO sessions (id, account_id, agent_id, agent_name) VALUES ('s-' || $1, $2, $1, $1)`, [
      id,
      accountId,
    ]);
  }
  await pool.query(
    `INSERT INTO session_messages (session_id, account_id, id, role, text) VALUES ('s-gone', $1, 'm', 'user', 'x')`,
    [accountId],
  );
}
const left = async (pool: SupervisorFixture['pool']) =>
  (
    await pool.query(
      'SELECT id FROM agents UNION ALL SELECT id FROM sessions UNION ALL SELECT id FROM session_messages ORDER BY id',
    )
  ).rows.map(({ id }) => id);

t.test('an uninstall removes its agents and their sessions, completely or not at all', async (t) => {
  const storage = await openStorageFixture(t);
  const leaving = await storage.install({ code: 'middleware.systemPrompt = () => undefined;' });
  const other = await storage.install({ code: 'middleware.systemPrompt = () => undefined;' });
  await withChats(storage.pool, leaving, other);
  await storage.pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [leaving.installationId]);
  const queues = await startQueues({ pool: storage.pool, role: 'producer', onError: t.error });
  t.teardown(() => queues.stop());
  const lost = openPool(storage.url, { name: 'lost', connections: 1, onError: () => undefined });
  t.teardown(() => lost.close());
  const holder = await storage.pool.connect();
  await holder.query('BEGIN');
  // The removal loses its connection when it waits for the session, with its agents locked, as if its process were killed.
  await holder.query(`SELECT 1 FROM sessions WHERE id = 's-gone' FOR UPDATE`);
  const removal = removeInstallation(lost.pool, queues, leaving.installationId).then(
    () => 'removed',
    () => 'lost',
  );
  await eventually(
    async () =>
      (
        await storage.pool.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE '%FROM sessions%FOR UPDATE' AND datname = current_database()`,
        )
      ).rows.length > 0,
  );
  t.equal(await removal, 'lost');
  await holder.query('ROLLBACK');
  holder.release();
  t.same(await left(storage.pool), ['gone', 'm', 'other', 'own', 's-gone', 's-other', 's-own']);
  await removeInstallation(storage.pool, queues, leaving.installationId);
  t.same(await left(storage.pool), ['other', 'own', 's-other', 's-own']);
  t.equal((await storage.pool.query('SELECT 1 FROM installations')).rows.length, 1);
});
