/** Faults of a required plugin: the operation continues only if the plugin ran. */

import t from 'tap';
import { changeBlock } from '../../../db/accounts/moderation.ts';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { waitWithoutProcessor } from '../../fixtures/late-hang.ts';
import { registerHooks } from '../../fixtures/registrations.ts';
import { eventually } from '../../runner/eventually.ts';
import { amount, listCases, soakTest } from '../../runner/soak.ts';
import { storeKey, waitForKey } from '../held-handlers.ts';
import { EXHAUST_MEMORY, type Installed, type Reply, startSupervisorFixture } from '../supervisor-fixture.ts';

// Most of them wait for a deadline.
t.jobs = 8;
/** A version that hangs while it loads keeps a core busy until it is killed. Milliseconds. */
const LOAD_WITHIN_MS = 2_000;
const fixture = await startSupervisorFixture(t, { loadWithinMs: LOAD_WITHIN_MS });
const REGISTRATIONS = registerHooks('middleware.inboundMessage');
/** A guard that does this for the message “bad”, and lets others pass. */
const guard = (onBad: string) =>
  `middleware.inboundMessage = async (ctx) => { if (ctx.message.text === 'bad') { ${onBad} } return {}; };`;
/** Until shortly before the deadline, what hangs leaves the processor to other tests. */
const LATE = waitWithoutProcessor(3_700);
const NEVER = 'host.log("begun"); await new Promise(() => undefined);';

interface Case {
  readonly code?: string;
  readonly registrations?: unknown;
  readonly status?: string;
  /** Whether the plugin runs first: another message passes it. Default: yes. */
  readonly cold?: boolean;
  /** Happens before the message. */
  readonly before?: (made: Installed) => Promise<unknown>;
  /** Happens while the message is with the plugin. */
  readonly during?: (made: Installed) => Promise<unknown>;
  readonly reason: RegExp;
}

const current = async ({ accountId, installationId }: Installed) => {
  const { byHook } = await fixture.supervisor.pluginsCache.current(accountId);
  return byHook.get('middleware.inboundMessage')?.find((plugin) => plugin.installationId === installationId);
};
const hasLogged = async ({ installationId }: Installed, pattern: string) => {
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query(
    'SELECT 1 FROM plugin_logs WHERE installation_id = $1 AND message LIKE $2',
    [installationId, pattern],
  );
  return rows.length > 0;
};
const hasBegun = (made: Installed) => hasLogged(made, 'begun');
const killed = async (made: Installed) => {
  const pid = await eventually(async () => fixture.supervisor.fleet.getPid(made.installationId));
  process.kill(pid, 'SIGKILL');
};

const cases: Readonly<Record<string, Case>> = {
  throws: { code: guard('throw new Error("oh no");'), reason: /failed with an error/ },
  'does not answer in time': { code: guard(NEVER), reason: /did not answer within 5 s/ },
  'hangs in a loop': { code: guard(`${LATE} for (;;) {}`), reason: /did not answer within 5 s/ },
  floods: {
    code: guard(`${LATE} for (;;) host.log("x".repeat(8_000));`),
    reason: /did not answer within 5 s|failed/,
  },
  'exceeds its memory': {
    code: guard(EXHAUST_MEMORY),
    // On a busy machine the heap is not full before the deadline.
    reason: /failed, .*: it exceeded its memory limit\. Try again|did not answer within 5 s/,
  },
  'returns more than a frame holds': {
    code: guard('return { message: { text: "x".repeat(8_000_000) } };'),
    // Beside the busy ones above, the child may not have serialized it before the deadline.
    reason: /failed|did not answer within 5 s/,
  },
  'is killed from outside': { code: guard(NEVER), during: killed, reason: /failed.*: it was ended by SIGKILL/ },
  'returns a malformed result': {
    code: guard('return { message: { id: "other" } };'),
    reason: /result that this hook/,
  },
  'returns no object': { code: guard('return "bad";'), reason: /result that this hook/ },
  'is cold and does not start': {
    code: 'throw new Error("not today");',
    registrations: REGISTRATIONS,
    cold: true,
    reason: /could not run, and this account requires it: its code does not load; its own log says why\. Try again/,
  },
  'is cold and its bundle is gone': {
    code: guard(''),
    cold: true,
    before: (made) =>
      fixture.pool.query(`UPDATE versions SET bundle_sha256 = repeat('0', 64) WHERE id = $1`, [made.versionId]),
    reason: /could not run/,
  },
  'is updated to a version that throws': {
    code: guard(''),
    before: async (made) => {
      await fixture.update(made, { semVer: '2.0.0', code: guard('throw new Error("new");') });
      await eventually(async () => (await current(made))?.semVer === '2.0.0');
      // The old version answers until the new one is ready.
      await eventually(async () => /_error$/.test((await send(made, 'bad')).body.trace[0].outcome));
    },
    reason: /failed with an error/,
  },
  'is updated to a version that does not start, with no old process left': {
    code: guard(''),
    before: async (made) => {
      await fixture.supervisor.fleet.retire(made.installationId, 0);
      const code = 'throw new Error("not today");';
      await fixture.update(made, { semVer: '2.0.0', code, registrations: REGISTRATIONS });
      await eventually(async () => (await current(made))?.semVer === '2.0.0');
    },
    reason: /could not run/,
  },
  'is blocked by an operator': {
    code: guard(''),
    before: async (made) => {
      await changeBlock(fixture.pool, made.slug, 'it phones home');
      await eventually(async () => (await current(made))?.blockedReason);
    },
    reason: /could not run.*: the operator blocked this plugin: it phones home\. Pause the plugin/,
  },
  'is blocked while it runs': {
    code: guard(NEVER),
    during: (made) => changeBlock(fixture.pool, made.slug, 'it phones home'),
    reason: /the operator blocked this plugin: it phones home\./,
  },
  'lacks its configuration': {
    code: guard(''),
    status: 'needs_configuration',
    cold: true,
    reason: /could not run.*: a setting or secret that it requires is missing\. Configure the plugin, or pause/,
  },
};

const sessions = new Map<string, Promise<string>>();
function sessionOf(account: string): Promise<string> {
  const known = sessions.get(account) ?? fixture.session(account);
  sessions.set(account, known);
  return known;
}
/** Sends a message to the account of this installation, which has the slug's name. */
async function send({ slug }: Pick<Installed, 'slug'>, text: string): Promise<Reply> {
  const message = { id: 'm', from: 'bob', text, attachments: [] };
  const path = `/sessions/${await sessionOf(slug)}/hooks/inboundMessage`;
  return fixture.call('POST', path, { context: { message } }, slug);
}

/** Faults of a required plugin: the quick run has one of each reason, and none that keeps a processor busy. */
const REQUIRED = [
  ...['throws', 'does not answer in time', 'is killed from outside', 'returns a malformed result'],
  ...['is cold and does not start', 'is updated to a version that does not start, with no old process left'],
  ...['is blocked by an operator', 'lacks its configuration'],
];
/** Faults of a plugin that is not required. */
const OPTIONAL = amount({ quick: ['throws', 'is cold and does not start'], soak: Object.keys(cases) });
let count = 0;
for (const [name, each] of listCases(cases, ...REQUIRED)) {
  const { code = guard(''), status, registrations, cold, before, during, reason } = each;
  const install = async (required: boolean) => {
    count += 1;
    const slug = `guard-${count}`;
    const made = await fixture.install({
      slug,
      account: slug,
      code,
      required,
      ...(status ? { status } : {}),
      ...(registrations ? { registrations } : {}),
    });
    // Beside the others its process may not start, or not answer, within the hook's budget.
    if (!cold) await eventually(async () => (await send(made, 'good')).body.trace[0]?.outcome === 'unchanged');
    await before?.(made);
    return made;
  };
  const callHook = async (made: Installed) => {
    const answer = send(made, 'bad');
    if (during) {
      await eventually(() => hasBegun(made));
      await during(made);
    }
    return (await answer).body;
  };

  t.test(`required, it ${name}: the message does not pass`, async (t) => {
    const made = await install(true);
    const body = await callHook(made);
    t.match(body, { action: 'cancel', cancelledBy: made.slug, reason });
    t.ok(body.reason.startsWith(`“${made.slug}” `), body.reason);
    t.match(body.reason, /this account requires it.*[Pp]ause .* to continue without it/);
    t.equal(body.trace.length, 1);
    t.match(body.trace, [{ slug: made.slug, required: true, outcome: /^vetoed_/ }]);
    const { items } = (
      await fixture.call('GET', `/sessions/${await sessionOf(made.slug)}/messages`, undefined, made.slug)
    ).body;
    t.match(items.at(-1), { role: 'notice', text: reason, data: { kind: 'cancelled', plugin: made.slug } });
  });

  if (!OPTIONAL.includes(name)) continue;
  t.test(`not required, it ${name}: the message passes, as before`, async (t) => {
    const body = await callHook(await install(false));
    t.match(body, { action: 'continue', reason: null, context: { message: { text: 'bad' } } });
    t.ok(
      body.trace.every(
        (step: { outcome: string; required: boolean }) => !step.required && /^skipped_/.test(step.outcome),
      ),
    );
  });
}

soakTest(
  t,
  'required, while a version without the hook starts: the old one is asked until the new one runs',
  async (t) => {
    const made = await fixture.install({
      slug: 'updated',
      account: 'updated',
      code: guard('ctx.cancel("no");'),
      required: true,
    });
    const sendBad = async () => (await send(made, 'bad')).body;
    t.match(await sendBad(), { action: 'cancel', reason: 'no' });
    const without = { ...REGISTRATIONS, hooks: [] };
    // Its start fails after the time that a load may take.
    await fixture.update(made, { semVer: '2.0.0', code: 'for (;;) {}', registrations: without });
    const { fleet } = fixture.supervisor;
    await eventually(async () => {
      t.match(await sendBad(), { action: 'cancel' });
      const [served] = (await fixture.supervisor.pluginsCache.get(made.accountId)).plugins;
      return served?.semVer === '1.0.0' && (await hasLogged(made, '2.0.0 does not start, 1.0.0 keeps running: %'));
    });
    t.match(await sendBad(), { action: 'cancel', reason: 'no' });
    const pid = fleet.getPid(made.installationId);
    await fixture.update(made, {
      semVer: '3.0.0',
      code: 'tools.x = { description: "x", parameters: {}, handler() {} };',
    });
    await eventually(async () => {
      const body = await sendBad();
      const { action, trace, reason } = body;
      const isNew = fleet.getPid(made.installationId) !== pid;
      if (action === 'cancel') return void t.ok(reason === 'no' || isNew, reason);
      t.same([isNew, trace], [true, []], JSON.stringify(body));
      return true;
    });
  },
);

soakTest(
  t,
  'required, and a version that adds the hook does not start beside the old one: the message does not pass',
  async (t) => {
    for (const required of [true, false]) {
      const slug = `adding-${required}`;
      const made = await fixture.install({
        slug,
        account: slug,
        required,
        code: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + " old";',
      });
      const session = await sessionOf(slug);
      const prompt = async () => {
        const context = { systemPrompt: 'The', model: 'm' };
        return (await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context }, slug)).body;
      };
      t.match(await prompt(), { context: { systemPrompt: 'The old' } });
      const code = 'throw new Error("not today");';
      const registrations = { ...REGISTRATIONS, hooks: ['middleware.systemPrompt', 'middleware.inboundMessage'] };
      await fixture.update(made, { semVer: '2.0.0', code, registrations });
      await eventually(async () => {
        await prompt();
        await fixture.supervisor.logs.flush();
        const refused = `SELECT 1 FROM plugin_logs WHERE installation_id = $1 AND message LIKE '%1.0.0 keeps running%'`;
        return (await fixture.pool.query(refused, [made.installationId])).rowCount === 1;
      });
      t.match((await send(made, 'bad')).body, { action: required ? 'cancel' : 'continue' }, slug);
      t.match(await prompt(), { context: { systemPrompt: 'The old' } }, 'the old version answers what it can');
    }
  },
);

t.test('required and paused by its owner: it is not called, and the message passes', async (t) => {
  const made = await fixture.install({
    slug: 'paused',
    account: 'paused',
    code: guard('ctx.cancel("no");'),
    required: true,
  });
  t.match((await send(made, 'bad')).body, {
    action: 'cancel',
    reason: 'no',
    trace: [{ required: true, outcome: 'cancelled' }],
  });
  await fixture.change(made, `status = 'paused'`);
  await eventually(async () => (await current(made)) === undefined);
  t.match((await send(made, 'bad')).body, { action: 'continue', trace: [] });
  await fixture.change(made, `status = 'ready'`);
  await eventually(async () => (await send(made, 'bad')).body.action === 'cancel');
});

t.test('the first failing required plugin stops the chain; what ran before it is in the trace', async (t) => {
  const place = { account: 'chain', slug: 'chain' };
  await fixture.install({
    ...place,
    slug: 'optional',
    code: 'middleware.inboundMessage = () => { throw new Error("x"); };',
  });
  await fixture.install({
    ...place,
    slug: 'fine',
    code: 'middleware.inboundMessage = () => ({ message: { text: "ok" } });',
    required: true,
  });
  await fixture.install({ ...place, slug: 'broken', code: 'middleware.inboundMessage = () => 7;', required: true });
  await fixture.install({ ...place, slug: 'last', code: 'middleware.inboundMessage = () => ({});' });
  const { body } = await send({ slug: 'chain' }, 'hello');
  t.match(body, { action: 'cancel', cancelledBy: 'broken' });
  t.same(
    body.trace.map(({ slug, required, outcome }: Record<string, unknown>) => [slug, required, outcome]),
    [
      ['optional', false, 'skipped_error'],
      ['fine', true, 'changed'],
      ['broken', true, 'vetoed_error'],
    ],
  );
});

t.test('hooks that no plugin can cancel stop their operation too', async (t) => {
  const account = 'uncancellable';
  const code = ['middleware.systemPrompt', 'middleware.sshCommandOutput', 'compaction.summarize']
    .map((hook) => `${hook} = (ctx) => { if (ctx.focus === 'blank') return ' '; throw new Error('x'); };`)
    .join('\n');
  const made = await fixture.install({ slug: account, account, code, required: true });
  const session = await sessionOf(account);
  const run = async (path: string, body: object) =>
    (await fixture.call('POST', `/sessions/${session}/${path}`, body, account)).body;
  const stopped = {
    action: 'cancel',
    cancelledBy: account,
    reason: /failed with an error, and this account requires it/,
    trace: [{ slug: account, required: true, outcome: 'vetoed_error' }],
  };
  t.match(await run('hooks/systemPrompt', { context: { systemPrompt: 'a', model: 'm' } }), stopped);
  const output = { command: 'ls', exitCode: 0, stdout: 'key=1', stderr: '', durationMs: 3 };
  t.match(await run('hooks/sshCommandOutput', { context: output }), stopped);
  t.match(await run('compaction', { messages: [] }), { ...stopped, summary: null, source: 'plugin', notice: null });
  t.match(await run('compaction', { messages: [], focus: 'blank' }), {
    action: 'cancel',
    cancelledBy: account,
    summary: null,
    reason: /returned a blank summary, and this account/,
    trace: [{ outcome: 'vetoed_error' }],
  });
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`, undefined, account)).body;
  t.equal(items.filter(({ data }: { data: { kind: string } }) => data.kind === 'cancelled').length, 4, 'a notice each');
  await fixture.change(made, 'required = false');
  await eventually(async () => (await run('compaction', { messages: [] })).source === 'builtin');
});

soakTest(
  t,
  'a required summarizer may leave a summary to the built-in one, and its log says why another stopped',
  async (t) => {
    const account = 'sometimes';
    const code = `compaction.summarize = (ctx) => ctx.focus === 'blank' ? ' ' : undefined;`;
    const made = await fixture.install({ slug: account, account, code, required: true });
    const path = `/sessions/${await sessionOf(account)}`;
    const summarize = async (body: object) => (await fixture.call('POST', `${path}/compaction`, body, account)).body;
    t.match(await summarize({ messages: [] }), {
      action: 'continue',
      source: 'builtin',
      notice: null,
      trace: [{ required: true, outcome: 'unchanged' }],
    });
    const list = async () => (await fixture.call('GET', `${path}/messages`, undefined, account)).body.items;
    t.same(await list(), [], 'without a notice');
    t.match(await summarize({ messages: [], focus: 'blank' }), { action: 'cancel', cancelledBy: account });
    await fixture.supervisor.logs.flush();
    const { rows } = await fixture.pool.query(
      `SELECT level, message FROM plugin_logs WHERE installation_id = $1 AND level = 'warn'`,
      [made.installationId],
    );
    t.same(rows, [
      { level: 'warn', message: 'No plugin summarized the conversation: sometimes returned a blank summary.' },
    ]);
  },
);

t.test('compaction asks the required plugin before others', async (t) => {
  const account = 'summaries';
  await fixture.install({ slug: 'first-summary', account, code: 'compaction.summarize = () => "first";' });
  const made = await fixture.install({
    slug: 'second-summary',
    account,
    code: 'compaction.summarize = () => "second";',
  });
  const session = await sessionOf(account);
  const summary = async () =>
    (await fixture.call('POST', `/sessions/${session}/compaction`, { messages: [] }, account)).body.summary;
  t.equal(await summary(), 'first');
  await fixture.change(made, 'required = true');
  await eventually(async () => (await summary()) === 'second');
});

const failingSummarizers: Readonly<Record<string, string>> = {
  throws: `throw new Error('broken')`,
  'returns a blank summary': `return ' '`,
};
for (const [how, end] of listCases(failingSummarizers, 'throws'))
  t.test(
    `a required summarizer that ${how} stops the compaction, also if another one comes first meanwhile`,
    async (t) => {
      const account = `reordered ${how}`;
      const code = `
      let open;
      const opened = new Promise((resolve) => { open = resolve; });
      commands.open = { description: 'd', handler: () => (open(), 'ok') };
      compaction.summarize = async () => { host.log('begun'); await opened; ${end}; };`;
      const slug = `slow-${end.length}`;
      const slow = await fixture.install({ slug, account, code, required: true });
      const other = await fixture.install({
        slug: `other-${end.length}`,
        account,
        code: 'compaction.summarize = () => "other";',
        required: true,
      });
      const session = await sessionOf(account);
      const post = (path: string, body: object) => fixture.call('POST', `/sessions/${session}/${path}`, body, account);
      const compacted = post('compaction', { messages: [] });
      await eventually(() => hasBegun(slow));
      await fixture.change(other, `hook_order = -1`);
      await post(`commands/${slug}__open`, { input: '' });
      t.match((await compacted).body, {
        action: 'cancel',
        cancelledBy: slug,
        summary: null,
        trace: [{ slug, required: true, outcome: 'vetoed_error' }],
      });
    },
  );

t.test('a plugin that is uninstalled, paused or reconfigured while an earlier one runs', async (t) => {
  const account = 'changes';
  const slow = await fixture.install({
    slug: 'slow',
    account,
    capabilities: ['host.storage'],
    code: `middleware.inboundMessage = async (ctx) => {
    if (ctx.message.text !== 'wait') return {};
    ${waitForKey("'go on'")}
    return {};
  };`,
  });
  const adds = (slug: string) =>
    fixture.install({
      slug,
      account,
      settings: { suffix: 'old' },
      code: 'middleware.inboundMessage = (ctx) => ({ message: { text: ctx.message.text + " " + ctx.settings.suffix } });',
    });
  const [gone, paused, changed] = [await adds('gone'), await adds('paused-later'), await adds('changed')];
  const sent = send({ slug: account }, 'x');
  t.match((await sent).body, { context: { message: { text: 'x old old old' } } });
  const answer = send({ slug: account }, 'wait');
  await fixture.change(gone, `status = 'uninstalling'`);
  await fixture.change(paused, `status = 'paused'`);
  await fixture.change(changed, `settings = '{"suffix": "new"}'`);
  await storeKey(fixture.pool, slow, 'go on');
  const { body } = await answer;
  t.equal(body.context.message.text, 'wait new');
  t.same(
    body.trace.map(({ slug }: { slug: string }) => slug),
    ['slow', 'changed'],
  );
});

soakTest(t, 'a change after the clock of the database went back counts', async (t) => {
  const made = await fixture.install({
    slug: 'clocked',
    account: 'clocked',
    settings: { bad: 'bad' },
    code: 'middleware.inboundMessage = (ctx) => { if (ctx.message.text === ctx.settings.bad) ctx.cancel("no"); };',
  });
  // The clock was an hour ahead when it was changed last.
  await fixture.pool.query(`UPDATE installations SET updated_at = clock_timestamp() + '1 hour' WHERE id = $1`, [
    made.installationId,
  ]);
  await notifyInstallationChanged(fixture.pool, made.installationId);
  t.match((await send(made, 'worse')).body, { action: 'continue', trace: [{ required: false }] });
  await fixture.change(made, `required = true, settings = '{"bad": "worse"}'`);
  await eventually(async () => (await current(made))?.required);
  t.match((await send(made, 'worse')).body, { action: 'cancel', trace: [{ required: true }] });
});

soakTest(t, 'a tool whose plugin is uninstalled, paused or reconfigured while a hook judges its call', async (t) => {
  const account = 'tool-changes';
  const slow = await fixture.install({
    slug: 'slow-judge',
    account,
    capabilities: ['host.storage'],
    code: `middleware.toolCall = async (ctx) => {
    await host.storage.set('asked ' + ctx.call.name, true);
    ${waitForKey("'go on'")}
    return {};
  };`,
  });
  const add = (slug: string) =>
    fixture.install({
      slug,
      account,
      settings: { word: 'old' },
      code: `tools.say = { description: 'd', parameters: {}, handler: (_args, ctx) => ctx.settings.word };`,
    });
  const [gone, paused, changed] = [await add('gone-tool'), await add('paused-tool'), await add('changed-tool')];
  const session = await sessionOf(account);
  const call = (slug: string) =>
    fixture.call('POST', `/sessions/${session}/tools/${slug}__say`, { arguments: {} }, account);
  const answers = Promise.all([call('gone-tool'), call('paused-tool'), call('changed-tool')]);
  const countStored = `SELECT count(*)::int AS asked FROM installation_storage WHERE installation_id = $1`;
  await eventually(async () => (await fixture.pool.query(countStored, [slow.installationId])).rows[0].asked === 3);
  await fixture.change(gone, `status = 'uninstalling'`);
  await fixture.change(paused, `status = 'paused'`);
  await fixture.change(changed, `settings = '{"word": "new"}'`);
  await storeKey(fixture.pool, slow, 'go on');
  const stopped = {
    status: 503,
    body: { code: 'unavailable', detail: /^[a-z-]+__say: The plugin may not run any more: it was paused, / },
  };
  const [ofGone, ofPaused, ofChanged] = await answers;
  t.match(ofGone, stopped);
  t.match(ofPaused, stopped);
  t.match(ofChanged, { status: 200, body: { content: [{ type: 'text', text: 'new' }] } });
  for (const { installationId } of [gone, paused])
    t.equal(fixture.supervisor.fleet.getPid(installationId), null, 'no process was started for it');
});

t.test('a tool’s result says whether a plugin refused the call, or a required one did not run', async (t) => {
  const own = fixture.withNewAccount();
  const session = await own.session();
  await own.install({
    slug: 'kit',
    account: own.account,
    code: `tools.go = { description: 'Goes', parameters: {}, handler: () => 'gone' };`,
  });
  await own.install({
    slug: 'strict-guard',
    account: own.account,
    required: true,
    code: `middleware.toolCall = (ctx) => {
      if (ctx.call.arguments.refuse) ctx.cancel('not today');
      throw new Error('sk-1');
    };
    middleware.sessionClear = () => { throw new Error('sk-1'); };`,
  });
  const path = `/sessions/${session}/tools/kit__go`;
  const call = async (refuse: boolean) => (await own.call('POST', path, { arguments: { refuse } })).body;
  const refused = {
    content: [{ type: 'text', text: 'strict-guard cancelled the operation: not today' }],
    isError: true,
  };
  t.same(await call(true), refused);
  const down =
    '“strict-guard” failed with an error, and this account requires it. Try again. If it fails again, see the plugin’s log, or pause the plugin to continue without it.';
  t.same(await call(false), { content: [{ type: 'text', text: down }], isError: true, isFinal: false });
  const turn = { id: 't1', text: 'hi', trigger: 'user' };
  t.equal((await own.call('POST', `/sessions/${session}/turns`, turn)).status, 201);
  const calls = `/sessions/${session}/turns/t1/calls/c1`;
  const made = await own.call('POST', calls, { name: 'kit__go', arguments: {} });
  t.same(made.body, { content: [{ type: 'text', text: down }], isError: true, isFinal: false });
  const { items } = (await own.call('GET', `/sessions/${session}/messages`)).body;
  const notices = items.filter(({ role }: { role: string }) => role === 'notice');
  t.same(
    [...new Set(notices.map(({ text }: { text: string }) => text))].toSorted(),
    [refused.content[0]?.text, down].toSorted(),
  );
});

t.test('called while the supervisor drains: the message does not pass', { buffered: false }, async (t) => {
  const draining = await fixture.install({ slug: 'draining', account: 'draining', code: guard(NEVER), required: true });
  t.match((await send(draining, 'good')).body, { action: 'continue' });
  const under = send(draining, 'bad');
  await eventually(() => hasBegun(draining));
  const closed = fixture.supervisor.fleet.close(100);
  t.match((await send(draining, 'good')).body, {
    action: 'cancel',
    cancelledBy: 'draining',
    reason: /could not run.*: the supervisor is stopping\. Try again/,
    trace: [{ required: true, outcome: 'vetoed_unavailable' }],
  });
  t.match((await under).body, { action: 'cancel', cancelledBy: 'draining', trace: [{ outcome: /^vetoed_/ }] });
  await closed;
});
