/** Mail between agents: judged once on each side, in one transcript once. */
import t from 'tap';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { setChannelAgent } from '../../../db/sessions/conversations.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { connect, deliver } from '../delivery/channels.ts';
import { CrashOnce, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

const GUARD = `
  const note = (hook) => (ctx) => {
    host.log('asked', { hook, agent: ctx.agent.id, trigger: ctx.trigger, to: ctx.toSessionId ?? ctx.target ?? null });
    if (ctx.message.text === 'refuse ' + hook) ctx.cancel('not this');
    return { message: { text: ctx.message.text + ' ' + hook } };
  };
  middleware.outboundMessage = note('outbound');
  middleware.agentMessage = note('agent');
  middleware.inboundMessage = note('inbound');`;

const startSession = async (fixture: SupervisorFixture, agentId: string): Promise<string> =>
  (await fixture.call('POST', '/sessions', { agentId, hostTools: ['agent'] })).body.id;
const readMessages = async (fixture: SupervisorFixture, session: string) =>
  (await fixture.call('GET', `/sessions/${session}/messages`)).body.items;

t.test('a hook on messages between agents gets the files that another plugin attached', async (t) => {
  const fixture = shared.withNewAccount();
  const attaches = `middleware.outboundMessage = (ctx) =>
    ({ message: { attachments: [{ name: 'plan', mediaType: 'text/plain', url: 'https://example.com/plan' }] } });`;
  const guards = `middleware.agentMessage = (ctx) => {
    if (ctx.message.attachments.length > 0) ctx.cancel('no files: ' + ctx.message.attachments[0].name);
  };`;
  await fixture.install({ slug: `attach-${fixture.account}`, code: attaches });
  await fixture.install({ slug: `guard-${fixture.account}`, code: guards });
  const planner = await startSession(fixture, 'planner');
  await startSession(fixture, 'worker');
  const mail = { id: 'm1', toAgentId: 'worker', text: 'bake', trigger: 'agent' };
  const { status, body } = await fixture.call('POST', `/sessions/${planner}/mail`, mail);
  t.match([status, body.detail], [409, /no files: plan/]);
});

t.test('a plugin that is required since a message arrived judges it when its turn is opened', async (t) => {
  const fixture = shared.withNewAccount();
  const guard = await fixture.install({
    slug: `guard-${fixture.account}`,
    settings: { works: '' },
    code: `middleware.inboundMessage = ({ message, settings, cancel, repeated }) => {
      if (!settings.works) throw new Error('x');
      if (message.text.startsWith('bad')) cancel('not this');
      return { message: { text: message.text + (repeated ? ' judged again' : ' judged') } };
    };`,
  });
  const footer = `footer-${fixture.account}`;
  await fixture.install({
    slug: footer,
    code: `middleware.inboundMessage = ({ message }) => ({ message: { text: message.text + '.' } });`,
  });
  const [planner, worker] = [await startSession(fixture, 'planner'), await startSession(fixture, 'worker')];
  const send = async (text: string): Promise<string> =>
    (await fixture.call('POST', `/sessions/${planner}/mail`, { id: text, toAgentId: 'worker', text, trigger: 'agent' }))
      .body.messageId;
  const open = async (id: string) =>
    (await fixture.call('POST', `/sessions/${worker}/turns`, { id, trigger: 'agent' })).body;
  const [bad, good, early] = [await send('bad'), await send('good'), await send('early')];
  t.match(await open(early), { state: 'open', message: { text: 'early.' } }, 'the guard failed');
  await fixture.change(guard, `required = true, settings = '{"works": "yes"}'`);
  t.match(await open(bad), { state: 'vetoed', reason: 'not this' });
  t.match(await open(good), { state: 'open', message: { text: 'good. judged again' } });
  t.match(await readMessages(fixture, worker), [
    { text: '' },
    { text: 'good. judged again', judgement: { outcome: 'changed', by: [footer, guard.slug] } },
    { text: 'early.' },
    { role: 'notice' },
  ]);
  const late = await send('late');
  t.match(await open(late), { message: { text: /^late judged\. judged again/ } }, 'after the footer');
});

soakTest(
  t,
  'a plugin that is required since messages arrived judges them before another turn’s prompt has them',
  async (t) => {
    const fixture = shared.withNewAccount();
    const guard = await fixture.install({
      slug: `guard-${fixture.account}`,
      settings: { works: 'yes' },
      code: `middleware.inboundMessage = async ({ message, settings, cancel, repeated, trigger }) => {
      await host.log('asked', { text: message.text, repeated: repeated === true, trigger });
      if (!settings.works) throw new Error('x');
      if (repeated && message.text.startsWith('bad')) cancel('not this');
      return { message: { text: message.text + (repeated ? ' again' : '') } };
    };`,
    });
    const [planner, worker] = [await startSession(fixture, 'planner'), await startSession(fixture, 'worker')];
    const send = async (text: string): Promise<string> =>
      (
        await fixture.call('POST', `/sessions/${planner}/mail`, {
          id: text,
          toAgentId: 'worker',
          text,
          trigger: 'agent',
        })
      ).body.messageId;
    const open = async (turn: object) =>
      (await fixture.call('POST', `/sessions/${worker}/turns`, { trigger: 'agent', ...turn })).body;
    const readPrompt = async () =>
      (await fixture.call('POST', `/sessions/${worker}/turns/t1/prompt`, { model: 'm' })).body;
    const change = (works: string) =>
      fixture.change(guard, `required = true, settings = '${JSON.stringify({ works })}'`);
    const old = await send('old');
    t.match(await open({ id: 't1', text: 'hello', trigger: 'user', prompt: {} }), {
      action: 'continue',
      prompt: { messages: [{ id: old }, { id: 't1' }] },
    });
    const [bad, good] = [await send('bad'), await send('good')];
    await change('');
    t.match(await readPrompt(), { action: 'cancel', isFinal: false, cancelledBy: guard.slug, messages: [] });
    await change('yes');
    const judged = {
      action: 'continue',
      messages: [
        { id: old, text: 'old' },
        { id: 't1', text: 'hello' },
        { id: good, text: 'good again' },
      ],
    };
    const texts = async () =>
      (await fixture.readLog('asked')).filter(({ repeated }) => repeated).map(({ text }) => text);
    t.match(await readPrompt(), judged, 'a model had read the first one before the plugin was required');
    t.same((await texts()).sort(), ['bad', 'bad', 'good']);
    const again = (await fixture.readLog('asked')).filter(({ repeated }) => repeated);
    t.ok(
      again.every(({ trigger }) => trigger === 'agent'),
      'as mail, although a person triggered the turn',
    );
    t.match(await open({ id: bad }), { state: 'vetoed', reason: 'not this', message: null });
    t.match(await open({ id: good }), { state: 'open', message: { text: 'good again' } });
    t.equal((await texts()).length, 3, 'their turns judge them no second time');
    t.match(await open({ id: old }), { state: 'open', message: { text: 'old again' } });
    await change('still');
    t.match((await readPrompt()).messages.length, 3);
    t.equal((await texts()).length, 4, 'nor do later prompts');
  },
);

soakTest(t, 'a message that waits is summarized once a model has read it', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: `summarizer-${fixture.account}`,
    code: `compaction.summarize = ({ messages }) => messages.map(({ text }) => text).join('+');`,
  });
  await fixture.install({
    slug: `budget-${fixture.account}`,
    required: true,
    code: `middleware.systemPrompt = ({ model }) => { if (model === 'costly') throw new Error('no budget'); };`,
  });
  const guard = await fixture.install({
    slug: `guard-${fixture.account}`,
    code: `middleware.inboundMessage = ({ cancel, repeated }) => { if (repeated) cancel('not this'); };`,
  });
  const [planner, worker] = [await startSession(fixture, 'planner'), await startSession(fixture, 'worker')];
  const send = (text: string) =>
    fixture.call('POST', `/sessions/${planner}/mail`, { id: text, toAgentId: 'worker', text, trigger: 'agent' });
  const turns = `/sessions/${worker}/turns`;
  await fixture.call('POST', turns, { id: 't1', text: 'hello', trigger: 'user' });
  await send('mail');
  const readTexts = async (model: string) => {
    const { body } = await fixture.call('POST', `${turns}/t1/prompt`, { model, compactAfter: 1, keep: 0 });
    return body.messages.map(({ text }: { text: string }) => text.replace(/^Summary.*\n/s, 'summary: '));
  };
  t.same(await readTexts('costly'), [], 'its prompt is cancelled');
  t.same(await readTexts('m'), ['summary: hello', 'hello', 'mail']);
  await send('later');
  t.same(await readTexts('costly'), []);
  await fixture.change(guard, 'required = true');
  const rest = ['summary: hello+mail', 'hello'];
  t.same(await readTexts('m'), rest, 'a plugin that is required since cancels the one that waits');
});

t.test('a message is judged by both sides, and arrives once', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const [planner, worker] = [await startSession(fixture, 'planner'), await startSession(fixture, 'worker')];
  const send = (body: object) => fixture.call('POST', `/sessions/${planner}/mail`, { trigger: 'agent', ...body });
  const mail = { id: 'm1', toAgentId: 'worker', text: 'bake' };
  const sent = await send(mail);
  t.match(sent, { status: 200, body: { sessionId: worker, toAgentId: 'worker' } });
  t.same((await send(mail)).body, sent.body, 'the same id');
  t.match(await readMessages(fixture, worker), [
    {
      id: sent.body.messageId,
      role: 'user',
      text: 'bake outbound agent inbound',
      data: { kind: 'agent_message', fromAgentId: 'planner', fromSessionId: planner },
      judgement: { hook: 'inboundMessage', outcome: 'changed' },
    },
  ]);
  t.match(await fixture.readLog('asked'), [
    { hook: 'outbound', agent: 'planner', trigger: 'agent', to: 'worker' },
    { hook: 'agent', agent: 'planner', to: worker },
    { hook: 'inbound', agent: 'worker', trigger: 'agent' },
  ]);
  const turn = { id: sent.body.messageId, trigger: 'agent' };
  t.match((await fixture.call('POST', `/sessions/${worker}/turns`, turn)).body, {
    state: 'open',
    message: { from: 'planner', text: 'bake outbound agent inbound' },
  });
  t.equal((await fixture.readLog('asked')).length, 3, 'its turn judges it no second time');
  for (const hook of ['outbound'])
    t.match(await send({ toAgentId: 'worker', text: `refuse ${hook}` }), { status: 409, body: { code: 'cancelled' } });
  t.match(await send({ toAgentId: 'missing', text: 'x' }), { status: 404 });
  const tool = await fixture.call('POST', `/sessions/${worker}/tools/agent__send`, {
    arguments: { toAgentId: 'planner', text: 'done' },
  });
  t.match(tool.body, { isError: false, content: [{ json: { sessionId: planner } }] });
  t.match((await readMessages(fixture, planner)).at(-1), { text: 'done outbound agent inbound' });
  const plain = { id: 'plain', role: 'user', text: 'no mail', data: { kind: 'note', text: '{"kind":"agent_message"' } };
  t.match(await fixture.call('POST', `/sessions/${worker}/messages`, { messages: [plain] }), { status: 200 });
  const first = (await fixture.call('GET', '/mail?limit=1')).body;
  t.match(first.items, [{ fromAgentId: 'worker', toAgentId: 'planner', sessionId: planner, text: /^done/ }]);
  const rest = (await fixture.call('GET', `/mail?limit=1&cursor=${first.nextCursor}`)).body;
  t.match(rest, { items: [{ ...sent.body, fromAgentId: 'planner', text: /^bake/ }], nextCursor: null });
  const other = shared.withNewAccount();
  t.same((await other.call('GET', '/mail')).body, { items: [], nextCursor: null });
  const theirs = await startSession(other, 'spy');
  const foreign = await other.call('POST', `/sessions/${theirs}/mail`, {
    toAgentId: 'worker',
    text: 'x',
    trigger: 'agent',
  });
  t.equal(foreign.status, 404, 'no agent of another account');
});

t.test('files that plugins of either side add arrive with the message, and stay with its session', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: `files-${fixture.account}`,
    capabilities: ['host.media'],
    code: `
      middleware.outboundMessage = async (ctx) => {
        const { id } = await host.media.put(new TextEncoder().encode('recipe'));
        return { message: { attachments: [{ name: 'recipe', mediaType: 'text/plain', mediaId: id }] } };
      };
      middleware.inboundMessage = (ctx) => {
        const scan = { name: 'scan', mediaType: 'text/html', url: 'https://example.com/scan' };
        return { message: { attachments: [...ctx.message.attachments, scan] } };
      };`,
  });
  const [planner, worker] = [await startSession(fixture, 'planner'), await startSession(fixture, 'worker')];
  const mail = { toAgentId: 'worker', text: 'bake', trigger: 'agent' };
  const { messageId } = (await fixture.call('POST', `/sessions/${planner}/mail`, mail)).body;
  const attachments = [{ name: 'recipe', mediaId: String }, { name: 'scan' }];
  t.match(await readMessages(fixture, worker), [{ id: messageId, data: { attachments } }]);
  const turn = await fixture.call('POST', `/sessions/${worker}/turns`, { id: messageId, trigger: 'agent' });
  t.match(turn.body, { state: 'open', message: { attachments } });
  const { rows } = await fixture.pool.query('SELECT media_id AS "mediaId" FROM session_media WHERE session_id = $1', [
    worker,
  ]);
  t.same(rows, [{ mediaId: turn.body.message.attachments[0].mediaId }]);
});

t.test('a mail that is sent again comes once, although its receiver started another session since', async (t) => {
  const fixture = shared.withNewAccount();
  const [planner, worker] = [await startSession(fixture, 'planner'), await startSession(fixture, 'worker')];
  const mail = { id: 'm1', toAgentId: 'worker', text: 'bake', trigger: 'agent' };
  const send = () => fixture.call('POST', `/sessions/${planner}/mail`, mail);
  const first = await send();
  t.match(first.body, { sessionId: worker });
  const newest = await startSession(fixture, 'worker');
  t.same((await send()).body, first.body);
  t.same(await readMessages(fixture, newest), []);
});

soakTest(
  t,
  'the id of a mail is refused for another text or another agent, until its receiver was cleared',
  async (t) => {
    const fixture = shared.withNewAccount();
    const [planner, worker] = [await startSession(fixture, 'planner'), await startSession(fixture, 'worker')];
    const other = await startSession(fixture, 'other');
    const mail = { id: 'm1', toAgentId: 'worker', text: 'bake', trigger: 'agent' };
    const send = (body: object, session = planner) => fixture.call('POST', `/sessions/${session}/mail`, body);
    const sent = await send(mail);
    t.match(await send({ ...mail, text: 'stop' }), { status: 409, body: { code: 'id_reused' } });
    t.match(await send({ ...mail, toAgentId: 'other' }), { status: 409, body: { code: 'id_reused' } });
    t.match(await send({ ...mail, toAgentId: 'missing' }), { status: 409, body: { code: 'id_reused' } });
    t.same((await send({ ...mail, trigger: 'user' })).body, sent.body, 'the same mail');
    t.match(await send({ ...mail, text: 'of another sender' }, other), { status: 200 });
    const texts = (await readMessages(fixture, worker)).map(({ text }: { text: string }) => text);
    t.same(texts, ['bake', 'of another sender']);
    t.same(await readMessages(fixture, other), []);
    await fixture.call('POST', `/sessions/${worker}/clear`, {});
    t.match(await send({ ...mail, text: 'stop' }), { status: 200 });
  },
);

t.test('mail comes into a conversation of a channel only if it names it', async (t) => {
  const fixture = shared.withNewAccount();
  const shop = await fixture.install({
    slug: `shop-${fixture.account}`,
    code: `channel.receive = ({ bodyText }) => ({ messages: [{ conversationKey: bodyText, from: bodyText, text: 'Hi' }] });
      channel.send = () => {};`,
  });
  const channel = await connect(fixture, shop);
  const agent = { id: 'planner', name: 'The planner' };
  await inTransaction(fixture.pool, (tx) => setChannelAgent(tx, channel.id, agent));
  await deliver(fixture, shop, channel, ['bob', 'eve']);
  const [bob, eve] = await eventually(async () => {
    const sql = `SELECT session_id AS id FROM conversations WHERE channel_id = $1 ORDER BY conversation_key`;
    const { rows } = await fixture.pool.query<{ id: string }>(sql, [channel.id]);
    return rows.length === 2 && rows.map(({ id }) => id);
  });
  const worker = await startSession(fixture, 'worker');
  const mail = { toAgentId: 'planner', text: 'for bob', trigger: 'agent' };
  const send = (body: object) => fixture.call('POST', `/sessions/${worker}/mail`, { ...mail, ...body });
  const sent = await Promise.all(['m1', 'm2'].map((id) => send({ id })));
  const apart = sent[0]?.body.sessionId;
  t.match(
    sent[1],
    { status: 200, body: { sessionId: apart } },
    'of two at once, the second finds the session of the first',
  );
  t.match((await fixture.call('GET', `/sessions/${apart}`)).body, {
    agentId: 'planner',
    agentName: 'The planner',
    channelId: null,
  });
  const named = await send({ id: 'm3', toSessionId: bob });
  t.match(named, { status: 200, body: { sessionId: bob } });
  t.match(await send({ id: 'm3', toSessionId: eve }), { status: 409, body: { code: 'id_reused' } });
  t.match(await send({ id: 'm3' }), { status: 409, body: { code: 'id_reused' } });
  const tool = await fixture.call('POST', `/sessions/${worker}/tools/agent__send`, {
    arguments: { toAgentId: 'planner', toSessionId: bob, text: 'more for bob' },
  });
  t.match(tool.body, { isError: false, content: [{ json: { sessionId: bob } }] });
  const texts = async (id: string) => (await readMessages(fixture, id)).map(({ text }: { text: string }) => text);
  t.same(await texts(bob ?? ''), ['Hi', 'for bob', 'more for bob']);
  t.same(await texts(eve ?? ''), ['Hi']);
  const foreign = await startSession(shared.withNewAccount(), 'planner');
  for (const toSessionId of [worker, foreign, 'unknown'])
    t.match(await send({ toSessionId }), { status: 404, body: { detail: /no session with the id toSessionId/ } });
});

t.test('a crash in the middle repeats nothing that arrived', async (t) => {
  const crash = new CrashOnce();
  const fixture = await startSupervisorFixture(t, { faultPoint: crash.faultPoint });
  const [planner, worker] = [await startSession(fixture, 'planner'), await startSession(fixture, 'worker')];
  await fixture.call('POST', `/sessions/${planner}/turns`, { id: 't1', text: 'go', trigger: 'user' });
  for (const step of ['mail.judged', 'mail.written', 'call.answered']) {
    const send = () =>
      fixture.call('POST', `/sessions/${planner}/turns/t1/calls/${step}`, {
        name: 'agent__send',
        arguments: { toAgentId: 'worker', text: step },
      });
    crash.next = step;
    t.equal((await send()).status, 500);
    t.equal(crash.next, '', `${step} was reached`);
    t.match((await send()).body, { isError: false, content: [{ json: { sessionId: worker } }] });
  }
  const texts = (await readMessages(fixture, worker)).map(({ text }: { text: string }) => text);
  t.same(texts, ['mail.judged', 'mail.written', 'call.answered']);
});
