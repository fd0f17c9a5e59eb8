/** Hooks over the session API: real children, real order, real cancels. */
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

const append = (text: string) => `middleware.systemPrompt = (ctx) => ctx.systemPrompt + ${JSON.stringify(text)};`;

t.test('a chain runs in order, each link seeing the last one’s change', async (t) => {
  const fixture = shared.withNewAccount();
  const first = await fixture.install({ slug: 'first', code: append(' one') });
  await fixture.install({ slug: 'silent', code: 'middleware.systemPrompt = () => undefined;' });
  await fixture.install({
    slug: 'second',
    code: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + ctx.settings.suffix;',
    settings: { suffix: '!' },
  });
  const session = await fixture.session();
  const path = `/sessions/${session}/hooks/systemPrompt`;
  const answer = await fixture.call('POST', path, { context: { systemPrompt: 'Be', model: 'm' } });
  t.equal(answer.status, 200, JSON.stringify(answer.body));
  t.match(answer.body, { action: 'continue', context: { systemPrompt: 'Be one!', model: 'm' }, reason: null });
  t.strictSame(
    answer.body.trace.map((step: { slug: string; outcome: string }) => [step.slug, step.outcome]),
    [
      ['first', 'changed'],
      ['silent', 'unchanged'],
      ['second', 'changed'],
    ],
  );
  t.equal(answer.body.trace[0].installationId, first.installationId);
});

t.test('the first cancel ends the chain and is written to the transcript', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'guard',
    code: 'middleware.inboundMessage = (ctx) => { if (ctx.message.text.includes("spam")) ctx.cancel("no spam here"); };',
  });
  await fixture.install({
    slug: 'later',
    code: 'middleware.inboundMessage = (ctx) => ({ message: { text: ctx.message.text + "!" } });',
  });
  const session = await fixture.session();
  const path = `/sessions/${session}/hooks/inboundMessage`;
  const send = (text: string) =>
    fixture.call('POST', path, { context: { message: { id: 'm', from: 'bob', text, attachments: [] } } });
  const stopped = await send('buy spam');
  t.match(stopped.body, { action: 'cancel', reason: 'no spam here', cancelledBy: 'guard' });
  t.equal(stopped.body.trace.length, 1);
  const passed = await send('hi');
  t.match(passed.body, { action: 'continue', context: { message: { id: 'm', text: 'hi!', from: 'bob' } } });
  const transcript = await fixture.call('GET', `/sessions/${session}/messages`);
  t.match(transcript.body.items, [{ role: 'notice', text: 'guard cancelled the operation: no spam here' }]);
});

t.test('a throwing link is skipped, with a line in its log', async (t) => {
  const fixture = shared.withNewAccount();
  const broken = await fixture.install({
    slug: 'broken',
    code: 'middleware.systemPrompt = () => { throw new Error("oh no"); };',
  });
  await fixture.install({ slug: 'fine', code: append(' fine') });
  const session = await fixture.session();
  const answer = await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, {
    context: { systemPrompt: 'a', model: 'm' },
  });
  t.equal(answer.body.context.systemPrompt, 'a fine');
  t.match(answer.body.trace, [{ outcome: 'skipped_error' }, { outcome: 'changed' }]);
  await fixture.supervisor.logs.flush();
  // On a busy machine, an earlier line says that it is still starting.
  const { rows } = await fixture.pool.query(
    `SELECT * FROM plugin_logs WHERE installation_id = $1 AND message NOT LIKE '%it is still starting'`,
    [broken.installationId],
  );
  t.match(rows, [{ source: 'system', level: 'error', message: /oh no/, session_id: session }]);
});

t.test('an SSH guard that fails vetoes the command', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: 'guard-2', code: 'middleware.sshCommand = () => { throw new Error("x"); };' });
  const session = await fixture.session();
  const answer = await fixture.call('POST', `/sessions/${session}/hooks/sshCommand`, {
    context: { host: { id: 'h', name: 'web' }, command: 'rm -rf /', cwd: null, env: {}, timeoutMs: 1000 },
  });
  t.match(answer.body, { action: 'cancel', cancelledBy: 'guard-2', trace: [{ outcome: 'vetoed_error' }] });
});

t.test('compaction asks the first plugin, and falls back with a notice', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const path = `/sessions/${session}/compaction`;
  t.same((await fixture.call('POST', path, {})).body, {
    action: 'continue',
    reason: null,
    cancelledBy: null,
    trace: [],
    summary: null,
    source: 'builtin',
    notice: null,
  });
  const made = await fixture.install({
    slug: 'short',
    code: 'compaction.summarize = (ctx) => ctx.messages.map((m) => m.text).join("|") + (ctx.focus ?? "");',
  });
  await fixture.call('POST', `/sessions/${session}/messages`, {
    messages: [
      { role: 'user', text: 'a' },
      { role: 'assistant', text: 'b' },
    ],
  });
  t.match((await fixture.call('POST', path, { focus: '?' })).body, {
    action: 'continue',
    summary: 'a|b?',
    source: 'plugin',
    notice: null,
    trace: [{ slug: 'short', required: false, outcome: 'changed' }],
  });
  await fixture.update(made, { semVer: '2.0.0', code: 'compaction.summarize = () => "  ";' });
  // The old version answers until the new one is ready.
  const after = (word: RegExp) =>
    eventually(async () => {
      const answer = await fixture.call('POST', path, {});
      return word.test(answer.body.notice ?? '') && answer;
    });
  const blank = await after(/blank/);
  t.match(blank.body, { summary: null, source: 'builtin', notice: /blank summary/ });
  await fixture.update(made, { semVer: '3.0.0', code: 'compaction.summarize = () => "x".repeat(70000);' });
  t.match((await after(/more than 65536/)).body, { source: 'builtin', summary: null });
  const notices = await fixture.call('GET', `/sessions/${session}/messages`);
  t.match(notices.body.items.at(-1), { role: 'notice', data: { kind: 'compaction_fallback' } });
});

t.test('a forgotten trigger does not turn what an agent does into a person’s doing', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'triggers',
    code: `middleware.todoDelete = (ctx) => ctx.cancel(ctx.trigger);
      middleware.sessionClear = (ctx) => ctx.cancel(ctx.trigger + ' ' + ctx.by);
      middleware.inboundMessage = (ctx) => ctx.cancel(ctx.trigger);`,
  });
  const at = `/sessions/${await fixture.session()}`;
  const todo = { id: 't', title: 'x', dueAt: null, assigneeAgentId: null, done: false };
  const reasonOf = async (hook: string, context: object, trigger?: string) =>
    (await fixture.call('POST', `${at}/hooks/${hook}`, { context, ...(trigger ? { trigger } : {}) })).body.reason;
  t.equal(await reasonOf('todoDelete', { todo }), 'agent');
  t.equal(await reasonOf('todoDelete', { todo }, 'user'), 'user');
  t.equal(await reasonOf('inboundMessage', { message: { id: 'm', from: 'bob', text: 'x' } }), 'user');
  const clear = async (body: object) => (await fixture.call('POST', `${at}/clear`, body)).body.detail;
  t.match(await clear({}), /: agent agent$/);
  t.match(await clear({ by: 'planner' }), /: agent planner$/);
  t.match(await clear({ by: 'user' }), /: user user$/);
  t.match(await clear({ trigger: 'schedule', by: 'nightly' }), /: schedule nightly$/);
});
