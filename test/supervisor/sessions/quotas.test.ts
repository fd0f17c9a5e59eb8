/** A full quota refuses what would add to it, says how to make room, and stops neither guards nor other accounts. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { deleteAgent } from '../../../db/accounts/agents.ts';
import { readUsage, saveUsageLimits } from '../../../db/accounts/usage.ts';
import type { UsageKind } from '../../../sdk/contract/usage-kinds.ts';
import { soakTest } from '../../runner/soak.ts';
import { asCommand, runCommand, startSupervisorFixture, withStartedPlugins } from '../supervisor-fixture.ts';

const fixture = withStartedPlugins(await startSupervisorFixture(t));
const { pool } = fixture;
const capabilities = ['host.session', 'host.workspace', 'host.media', 'host.storage'];
const code = `${asCommand(`const { post, write, remove, put, store } = args;
  if (post) return host.session.post(post);
  if (write) return host.workspace.write(write, 'x'.repeat(1000));
  if (remove) return host.workspace.remove(remove);
  if (put) return host.media.put(new TextEncoder().encode(put));
  await host.storage.set('k', store);`)}
  middleware.inboundMessage = (ctx) => { if (ctx.message.text === 'bad') ctx.cancel('forbidden'); };
  events.sessionStarted = () => {};`;

const usageOf = async (account: string): Promise<Record<string, number>> => {
  const { id } = await findOrCreateAccount(pool, account);
  return Object.fromEntries((await readUsage(pool, id)).map(({ kind, usedBytes }) => [kind, usedBytes]));
};
const refused = (kind: UsageKind) => ({ status: 413, body: { code: 'quota_exceeded', errors: [{ field: kind }] } });
t.teardown(() => saveUsageLimits(pool, {}));

t.test('transcripts', async (t) => {
  const { withNewAccount, call } = fixture;
  const { account, install } = withNewAccount();
  await install({ slug: 'guard', capabilities, code, account });
  const session = await fixture.session(account);
  const append = (text: string, as = account, to = session) =>
    call('POST', `/sessions/${to}/messages`, { messages: [{ role: 'user', text }] }, as);
  t.equal((await append('a')).status, 200);
  const { transcripts = 0 } = await usageOf(account);
  t.ok(transcripts > 500);
  await saveUsageLimits(pool, { transcripts: transcripts + 2_000 });
  const over = await append('x'.repeat(3_000));
  t.match(over, refused('transcripts'));
  t.match(
    over.body.detail,
    /^Quota exceeded: transcripts would take \d+ of \d+ bytes\. Clear or delete sessions\. Delete to-dos that are done\.$/,
  );
  t.equal((await usageOf(account)).transcripts, transcripts, 'nothing of it was added');
  t.equal((await append('x'.repeat(1_690))).status, 200);
  t.match(await append('b'), refused('transcripts'), 'full');
  t.match(
    await runCommand(fixture, 'guard', { post: 'x' }, { account, session }),
    /^host\.session\.post: Quota exceeded/,
  );
  t.match(await call('POST', '/sessions', { agentId: 'a' }, account), refused('transcripts'));
  const context = { message: { id: 'm', from: 'f', text: 'bad', attachments: [] } };
  t.match(await call('POST', `/sessions/${session}/hooks/inboundMessage`, { context }, account), {
    status: 200,
    body: { action: 'cancel', reason: 'forbidden' },
  });
  const theirs = await fixture.session('someone-else');
  t.equal((await append('c', 'someone-else', theirs)).status, 200, 'another account has its own quota');
  t.equal((await call('POST', `/sessions/${session}/clear`, {}, account)).status, 200);
  t.equal((await append('d')).status, 200);
});

t.test('full transcripts refuse what a session takes beside its messages', async (t) => {
  const { call, withNewAccount } = fixture;
  const { account } = withNewAccount();
  const session = await fixture.session(account);
  const clear = () => call('POST', `/sessions/${session}/clear`, {}, account);
  const putFile = () => call('POST', `/sessions/${session}/media`, { data: 'eA==' }, account);
  t.equal((await clear()).status, 200);
  const file = await putFile();
  t.equal(file.status, 201);
  const other = await fixture.session(account);
  const { transcripts = 0 } = await usageOf(account);
  await saveUsageLimits(pool, { transcripts: transcripts - 1 });
  t.match(await putFile(), refused('transcripts'));
  const attachments = [{ name: 'x', mediaType: 'text/plain', mediaId: file.body.mediaId }];
  const turn = { id: 'a', text: '', attachments, trigger: 'user' };
  t.match(await call('POST', `/sessions/${other}/turns`, turn, account), refused('transcripts'));
  const held = await pool.query('SELECT FROM session_media WHERE session_id = $1', [other]);
  t.equal(held.rowCount, 0, 'a refused message holds no file');
  t.match(await clear(), refused('transcripts'), 'it is empty: clearing it makes no room');
  t.match(await usageOf(account), { transcripts });
  await saveUsageLimits(pool, {});
  await pool.query(
    `INSERT INTO tool_calls (session_id, turn_id, call_id, digest, account_id, name)
     SELECT id, '', 'c', 'd', account_id, 'x' FROM sessions WHERE id = $1`,
    [session],
  );
  await saveUsageLimits(pool, { transcripts: transcripts - 1 });
  t.equal((await clear()).status, 200, 'a clear that makes room is not refused');
  t.equal((await call('DELETE', `/sessions/${session}`, undefined, account)).status, 204);
  const { transcripts: left = 0 } = await usageOf(account);
  t.ok(left < transcripts, 'deleting it does');
});

t.test('the answer of a tool that ran is kept when the transcript has no room for it', async (t) => {
  await saveUsageLimits(pool, {});
  const { account, install } = fixture.withNewAccount();
  const code = "tools.fill = { description: 'x', parameters: { type: 'object' }, handler: () => 'x'.repeat(5000) };";
  await install({ slug: 'filler', code, account });
  const session = await fixture.session(account);
  const turn = (method: string, path: string, body?: unknown) =>
    fixture.call(method, `/sessions/${session}/turns${path}`, body, account);
  t.match(await turn('POST', '', { id: 't1', text: 'go', trigger: 'user' }), { body: { state: 'open' } });
  const { transcripts = 0 } = await usageOf(account);
  await saveUsageLimits(pool, { transcripts: transcripts + 2_000 });
  const call = () => turn('POST', '/t1/calls/c1', { name: 'filler__fill' });
  const answered = await call();
  t.match(answered, { status: 200, body: { content: [{ text: /^x{5000}$/ }], isError: false } });
  t.same((await call()).body, answered.body, 'a repeated call gets the same answer');
});

/** A turn of a new account with one plugin. */
async function openTurn(slug: string, code: string) {
  await saveUsageLimits(pool, {});
  const { account, install } = fixture.withNewAccount();
  await install({ slug, code, account });
  const session = await fixture.session(account);
  const turns = `/sessions/${session}/turns`;
  await fixture.call('POST', turns, { id: 't1', text: 'go', trigger: 'user' }, account);
  const output = (body: object) => fixture.call('POST', `${turns}/t1/output`, body, account);
  return { account, output };
}

soakTest(t, 'full transcripts refuse pieces of open texts that a plugin makes long, until there is room', async (t) => {
  const OUTPUTS = 12;
  const JUDGED_CHARS = 10_000;
  const JUDGED_BYTES = 3 * JUDGED_CHARS;
  /** At least what a short piece takes. */
  const SHORT_BYTES = 1_000;
  const long = '一'.repeat(JUDGED_CHARS);
  const code = `middleware.outboundMessage = { stream: true, handler: ({ message: { text } }) => {
    if (text === 'b') return { message: { text: '一'.repeat(${JUDGED_CHARS}) } };
  } };`;
  const { account, output } = await openTurn('streaming', code);
  const ids = Array.from({ length: OUTPUTS }, (_, index) => `o${index}`);
  for (const id of ids) t.match((await output({ id, piece: 0, text: 'a' })).body, { show: 'a', state: 'open' });
  const { transcripts = 0 } = await usageOf(account);
  const limit = transcripts + 3 * JUDGED_BYTES + OUTPUTS * SHORT_BYTES;
  await saveUsageLimits(pool, { transcripts: limit });
  const send = (id: string) => output({ id, piece: 1, text: 'b' });
  const statuses: number[] = [];
  for (const id of ids) statuses.push((await send(id)).status);
  const expected = ids.map((_, index) => (index < 3 ? 200 : 413));
  t.same(statuses, expected);
  t.match(await send('o11'), refused('transcripts'), 'again');
  const { transcripts: used = 0 } = await usageOf(account);
  t.ok(used <= limit, `${used} of ${limit} bytes`);
  t.match((await send('o0')).body, { show: long }, 'one that was judged is answered as before');
  await saveUsageLimits(pool, {});
  t.match((await send('o11')).body, { show: long, state: 'open' });
  t.match((await output({ id: 'o11', piece: 2, text: 'c', done: true })).body, { show: 'c', state: 'passed' });
});

soakTest(t, 'full transcripts refuse the files that a plugin adds to an empty text', async (t) => {
  const code = `middleware.outboundMessage = ({ message: { text } }) => {
    const file = { name: 'f', mediaType: 'text/plain', url: 'https://example.com/' + 'x'.repeat(4000) };
    return { message: { text: '', attachments: text === 'files' ? Array.from({ length: 50 }, () => file) : [] } };
  };`;
  const { account, output } = await openTurn('filing', code);
  const { transcripts = 0 } = await usageOf(account);
  await saveUsageLimits(pool, { transcripts: transcripts + 100_000 });
  const send = () => output({ id: 'o1', text: 'files' });
  t.match(await send(), refused('transcripts'));
  t.match(await usageOf(account), { transcripts }, 'nothing of it was added');
  t.match((await output({ id: 'o2', text: 'none' })).body, { state: 'passed', attachments: [] });
  await saveUsageLimits(pool, {});
  const sent = await send();
  t.equal(sent.body.attachments.length, 50);
  await saveUsageLimits(pool, { transcripts: 1 });
  t.same((await send()).body, sent.body, 'one that was judged is answered as before');
});

soakTest(t, 'a piece that is stored is answered as before while transcripts are full', async (t) => {
  const code = `middleware.outboundMessage = { stream: true, handler: ({ message: { text } }) =>
    ({ message: { text: text.toUpperCase() } }) };`;
  const { output } = await openTurn('shouting', code);
  const send = (piece: number, text: string, done = false, id = 'o1') => output({ id, piece, text, done });
  const [short, long] = ['a', 'b'.repeat(2_000)];
  t.match((await send(0, short)).body, { show: 'A' });
  t.match((await send(1, long)).body, { show: long.toUpperCase() });
  await saveUsageLimits(pool, { transcripts: 1 });
  t.match((await send(0, short)).body, { show: 'A' });
  t.match((await send(1, long)).body, { show: long.toUpperCase() });
  t.match((await send(1, long.replace('b', 'c'))).body, { code: 'id_reused' });
  t.match(await send(2, long), refused('transcripts'), 'a new piece');
  t.match(await send(0, short, false, 'o2'), refused('transcripts'), 'the first piece of a new text');
  await saveUsageLimits(pool, {});
  t.match((await send(2, long, true)).body, { show: long.toUpperCase(), state: 'passed' });
  await saveUsageLimits(pool, { transcripts: 1 });
  t.match((await send(2, long, true)).body, { show: long.toUpperCase(), state: 'passed' }, 'the last piece');
});

t.test('a full event queue stops what would add to it, not what makes room', async (t) => {
  await saveUsageLimits(pool, {});
  const { account, install } = fixture.withNewAccount();
  await install({ slug: 'listener', capabilities, code, account });
  const session = await fixture.session(account);
  await saveUsageLimits(pool, { deliveries: 1 });
  t.match(await fixture.call('POST', '/sessions', { agentId: 'a' }, account), refused('deliveries'));
  t.equal((await fixture.call('DELETE', `/sessions/${session}`, undefined, account)).status, 204);
  const theirs = await fixture.call('POST', '/sessions', { agentId: 'a' }, 'no-listener');
  t.equal(theirs.status, 201, 'an account without listeners has no event to keep');
});

soakTest(t, 'the events of a deletion of many sessions stay near the quota', async (t) => {
  const LISTENERS = 3;
  const SESSIONS = 2_000;
  /** The events of one batch, each of which counts about 800 bytes. */
  const BATCH_BYTES = 1_000 * 1_000;
  const LIMIT = 500_000;
  await saveUsageLimits(pool, {});
  const { account, install } = fixture.withNewAccount();
  const listens = 'events.sessionDeleted = () => {};';
  const status = 'paused';
  for (let n = 0; n < LISTENERS; n += 1) await install({ slug: `deaf-${n}`, code: listens, account, status });
  const { id: accountId } = await findOrCreateAccount(pool, account);
  await pool.query(
    `INSERT INTO agents (id, account_id, name, instructions, size_bytes) VALUES ('many', $1, 'A', '', 1)`,
    [accountId],
  );
  await pool.query(
    `INSERT INTO sessions (id, account_id, agent_id, agent_name)
     SELECT 'many' || n, $1, 'many', 'A' FROM generate_series(1, $2::int) n`,
    [accountId, SESSIONS],
  );
  await saveUsageLimits(pool, { deliveries: LIMIT });
  t.ok(await deleteAgent(pool, fixture.supervisor.queues, { accountId }, 'many'));
  t.equal((await pool.query('SELECT 1 FROM sessions WHERE account_id = $1', [accountId])).rowCount, 0);
  const { deliveries = 0 } = await usageOf(account);
  t.ok(deliveries > LIMIT && deliveries < LIMIT + BATCH_BYTES, `${deliveries} bytes of ${LIMIT}`);
});

t.test('workspaces, media and storage are counted; media are refused before they reach the disk', async (t) => {
  await saveUsageLimits(pool, {});
  const { account, install } = fixture.withNewAccount();
  await install({ slug: 'writer', capabilities, code, account });
  const session = await fixture.session(account);
  const run = (args: object) => runCommand(fixture, 'writer', args, { account, session });
  await run({ write: 'a/b.txt' });
  await run({ write: 'a/c.txt' });
  t.equal((await usageOf(account)).workspaces, 2_000);
  await run({ write: 'a/b.txt' });
  await run({ remove: 'a/c.txt' });
  t.equal((await usageOf(account)).workspaces, 1_000);
  await run({ store: 'v'.repeat(100) });
  await run({ put: 'media' });
  t.match(await usageOf(account), { storage: 103, media: 505, blobs: 5 });
  await saveUsageLimits(pool, { blobs: 10 });
  t.match(await run({ put: 'others' }), /^host\.media\.put: Quota exceeded: blobs would take 11 of 10 bytes/);
  t.match(await usageOf(account), { media: 505, blobs: 5 });
});
