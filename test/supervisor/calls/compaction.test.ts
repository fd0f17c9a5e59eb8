/** The summary: the first plugin that may run is asked, with a minute's time; whatever is wrong with it, the built-in one is used. */
import t from 'tap';
import { SECOND } from '../../../sdk/contract/limits.ts';
import type { LinkResult } from '../../../supervisor/calls/chain.ts';
import type { PluginCall } from '../../../supervisor/calls/plugin-call.ts';
import { soakTest } from '../../runner/soak.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const summing = (text: string) => `compaction.summarize = () => ${JSON.stringify(text)};`;
const CODE = `compaction.summarize = async ({ focus, signal, cancel, ...ctx }) => {
  host.log('asked', ctx);
  if (focus === 'throw') throw new Error('broken');
  if (focus === 'nothing') return;
  if (focus === 'number') return 7;
  if (focus === 'cancel') cancel('never');
  if (focus === 'long') return 'x'.repeat(ctx.maxChars + 1);
  if (focus === 'blank') return ' \\n\\t';
  return 'x'.repeat(ctx.maxChars);
};`;

const fixture = await startSupervisorFixture(t);
const first = await fixture.install({ slug: 'first', code: CODE });
await fixture.install({ slug: 'second', code: summing('by the second') });
const compact = async (focus: string | null) => {
  const session = await fixture.session();
  const { body } = await fixture.call('POST', `/sessions/${session}/compaction`, { focus, messages: [] });
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  return { body, notices: items };
};

t.test('only the first summarizer is called, with a budget of one minute', async (t) => {
  const { body, notices } = await compact(null);
  t.match(body, { source: 'plugin', notice: null });
  t.equal(body.summary.length, 65_536, 'as long as it may be');
  t.same(notices, []);
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query('SELECT data FROM plugin_logs WHERE installation_id = $1', [
    first.installationId,
  ]);
  const { at, deadlineAt } = rows[0].data;
  const late = 60 * SECOND - (Date.parse(deadlineAt) - Date.parse(at));
  t.ok(late >= 0 && late < SECOND, `a minute but ${late} ms`);
});

const wrong: Readonly<Record<string, RegExp>> = {
  throw: /first failed/,
  number: /first failed/,
  cancel: /first failed/,
  blank: /first returned a blank summary/,
  long: /first returned more than 65536 characters/,
};
for (const [focus, notice] of Object.entries(wrong))
  t.test(`${focus}: the built-in summarizer is used, and no other plugin is called`, async (t) => {
    const { body, notices } = await compact(focus);
    t.match(body, { summary: null, source: 'builtin', notice, trace: [{ outcome: 'skipped_error' }] });
    t.match(notices, [{ role: 'notice', text: notice, data: { kind: 'compaction_fallback', plugin: 'first' } }]);
  });

t.test('a plugin that returns nothing leaves the summary to the built-in summarizer, without a notice', async (t) => {
  const { body, notices } = await compact('nothing');
  t.match(body, {
    action: 'continue',
    summary: null,
    source: 'builtin',
    notice: null,
    trace: [{ slug: 'first', outcome: 'unchanged' }],
  });
  t.equal(body.trace.length, 1, 'no other plugin is called');
  t.same(notices, []);
});

t.test('the built-in summarizer is also used after a timeout, or when the plugin cannot be called', async (t) => {
  const { fleet } = fixture.supervisor;
  const real = fleet.invoke;
  t.teardown(() => {
    fleet.invoke = real;
  });
  const ends: readonly (readonly [LinkResult, RegExp])[] = [
    [{ kind: 'timeout', message: 'late' }, /first took too long/],
    [{ kind: 'unavailable', message: 'full' }, /first is not running/],
  ];
  for (const [result, notice] of ends) {
    const calls: PluginCall[] = [];
    // The test does not wait a minute.
    fleet.invoke = async (_entry, call) => {
      calls.push(call);
      return result;
    };
    const { body, notices } = await compact(null);
    t.match(body, { summary: null, source: 'builtin', notice });
    t.match(notices, [{ role: 'notice', data: { kind: 'compaction_fallback' } }]);
    t.equal(calls.length, 1);
  }
});

t.test('messages may leave out id and time, as in a transcript', async (t) => {
  const own = fixture.withNewAccount();
  const code = `compaction.summarize = ({ messages }) => JSON.stringify(messages);`;
  await own.install({ slug: 'echo', code });
  const path = `/sessions/${await own.session()}/compaction`;
  const summarize = async (messages: readonly object[]) => {
    const { status, body } = await own.call('POST', path, { messages });
    return status === 200 ? JSON.parse(body.summary) : body;
  };
  const whole = { id: 'm1', role: 'user', text: 'one', at: '2026-01-05T09:00:00.000Z' };
  const [first, ...added] = await summarize([whole, { role: 'user', text: 'two' }, { role: 'user', text: 'three' }]);
  t.same(first, whole, 'what is given stays');
  t.match(added, [
    { role: 'user', text: 'two' },
    { role: 'user', text: 'three' },
  ]);
  t.ok(added.every(({ at }: { at: string }) => !Number.isNaN(Date.parse(at))));
  t.equal(new Set(added.map(({ id }: { id: string }) => id)).size, 2);
  t.match(await summarize([{ role: 'user' }]), { code: 'bad_request', errors: [{ field: 'messages.0.text' }] });
});

soakTest(t, 'a summary that fails again adds no other notice, also if the messages have no ids', async (t) => {
  const own = fixture.withNewAccount();
  await own.install({ slug: 'broken', code: `compaction.summarize = () => { throw new Error('broken'); };` });
  const path = `/sessions/${await own.session()}`;
  const summarize = (...texts: readonly string[]) =>
    own.call('POST', `${path}/compaction`, { messages: texts.map((text) => ({ role: 'user', text })) });
  const countNotices = async () => (await own.call('GET', `${path}/messages`)).body.items.length;
  for (let attempt = 0; attempt < 3; attempt += 1)
    t.match((await summarize('one', 'two')).body, { notice: /^No plugin summarized/ });
  t.equal(await countNotices(), 1);
  await summarize('one', 'two', 'two');
  t.equal(await countNotices(), 2, 'of a conversation that is longer by now');
});

t.test('what may not reach a model does not reach it in a summary', async (t) => {
  const own = fixture.withNewAccount();
  const code = `middleware.inboundMessage = (ctx) => { if (ctx.message.text === 'bad') ctx.cancel('no'); };
    compaction.summarize = ({ messages }) => messages.map(({ text }) => text).join();`;
  await own.install({ slug: 'guard', code });
  const session = async (more = {}) =>
    (await own.call('POST', '/sessions', { agentId: 'a', key: 'k', ...more })).body.id;
  const path = `/sessions/${await session()}`;
  const messages = ['bad', 'good'].map((text) => ({ id: text, role: 'user', text }));
  t.equal((await own.call('POST', `${path}/messages`, { messages })).status, 200);
  t.match((await own.call('POST', `${path}/turns`, { id: 'bad', trigger: 'user' })).body, { action: 'cancel' });
  const summarize = async () => (await own.call('POST', `${path}/compaction`, {})).body.summary;
  t.equal(await summarize(), 'good', 'without what was cancelled, and without the notice of it');
  await session({ strict: true });
  t.match((await own.call('POST', `${path}/turns`, { id: 't', text: 'judged', trigger: 'user' })).body, {
    state: 'open',
  });
  t.equal(await summarize(), 'judged', 'a strict session has only what hooks judged');
});

t.test('a summary is judged like a message that arrives', async (t) => {
  const own = fixture.withNewAccount();
  await own.install({
    slug: `sums-${own.account}`,
    code: `compaction.summarize = ({ messages }) => messages.map(({ text }) => text).join(' ');
      middleware.inboundMessage = ({ cancel }) => cancel('its author is not asked');`,
  });
  const guard = await own.install({
    slug: `guard-${own.account}`,
    required: true,
    code: `middleware.inboundMessage = ({ message, cancel }) => {
      if (message.text.includes('broken')) throw new Error('x');
      if (message.from === 'summary' && message.text.includes('two parts')) cancel('no secrets');
      if (message.from === 'summary') return { message: { text: message.text.replace('Ann', 'A.') } };
    };`,
  });
  const summarize = async (...texts: string[]) => {
    const session = await own.session();
    const messages = texts.map((text) => ({ role: 'user', text }));
    await own.call('POST', `/sessions/${session}/messages`, { messages });
    return (await own.call('POST', `/sessions/${session}/compaction`, {})).body;
  };
  t.match(await summarize('Ann', 'says hi'), { action: 'continue', source: 'plugin', summary: 'A. says hi' });
  t.match(await summarize('two', 'parts'), {
    action: 'continue',
    source: 'builtin',
    summary: null,
    notice: /returned a summary that .* cancelled/,
  });
  t.match(await summarize('broken'), { action: 'cancel', summary: null, cancelledBy: guard.slug });
});
