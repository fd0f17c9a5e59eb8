/** `serve` answers what comes to sessions by itself, once, whoever else is there. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { Agent, type AgentInputItem, assistant, type Model, Runner, Usage } from '@openai/agents';
import { generateText, streamText, wrapLanguageModel } from 'ai';
import t from 'tap';
import { bulkhead, VetoError } from '../../sdk/adapters/ai-sdk.ts';
import * as openAiAgents from '../../sdk/adapters/openai-agents.ts';
import { connect, type ServedAgent, type ServeOptions, type Session, serve } from '../../sdk/session/session.ts';
import { registerHooks } from '../fixtures/registrations.ts';
import { eventually } from '../runner/eventually.ts';
import { amount, isSoak, listCases, soakTest } from '../runner/soak.ts';
import { connect as connectChannel, deliver } from '../supervisor/delivery/channels.ts';
import { startModelServer } from '../supervisor/host/model-server.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { createModelOfTexts } from './scripted-models.ts';

const shared = await startSupervisorFixture(t);
const url = await shared.app.listen({ port: 0, host: '127.0.0.1' });

const DESK = `
  channel.receive = ({ bodyText: text }) => ({ messages: [{ conversationKey: /^\\w+(?=: )/.exec(text)?.[0] ?? 'k', from: 'vera', text }] });
  channel.send = (message) => { host.log('sent', { text: message.text }); };
  middleware.inboundMessage = (ctx) => { host.log('inbound', { text: ctx.message.text }); };
  middleware.outboundMessage = (ctx) => { if (/classified/.test(ctx.message.text)) ctx.cancel('that is classified'); };`;

async function openDesk() {
  const fixture = shared.withNewAccount();
  const installed = await fixture.install({ slug: `desk-${fixture.account}`, code: DESK });
  const channel = await connectChannel(fixture, installed);
  const token = await fixture.issuer.issue(fixture.account);
  return {
    fixture,
    deliver: (...bodies: string[]) => deliver(fixture, installed, channel, bodies),
    client: (runtime: string) => connect({ url, token, runtime }),
    sent: async () => (await fixture.readLog('sent')).map(({ text }: { text: string }) => text),
  };
}

/** Installs a required plugin that fails in the hook that `failAt` names, and judges nothing until then. */
async function installGuard({ fixture }: Awaited<ReturnType<typeof openDesk>>) {
  const { installationId } = await fixture.install({
    slug: `guard-${fixture.account}`,
    settings: { fails: '' },
    required: true,
    code: `
      middleware.inboundMessage = ({ settings }) => { if (settings.fails === 'inboundMessage') throw new Error('away'); };
      middleware.outboundMessage = ({ settings }) => {
        if (settings.fails !== 'outboundMessage') return;
        host.log('refused', { text: 'outbound' });
        throw new Error('away');
      };`,
  });
  return {
    failAt: async (fails: string) => {
      const sql = 'UPDATE installations SET settings = $2, updated_at = clock_timestamp() WHERE id = $1';
      await fixture.pool.query(sql, [installationId, JSON.stringify({ fails })]);
      await fixture.notify(installationId);
    },
  };
}

/** The turns of the account's only session that have a state. */
async function listTurns(desk: Awaited<ReturnType<typeof openDesk>>, state: 'judging' | 'open') {
  const client = desk.client('reader');
  const [session] = (await client.list()).items;
  return (await client.open(session?.id ?? '').turns({ state })).items;
}

/** Until a message is in the transcript: one that the guard does not judge when it comes is delivered again, much later. */
const untilArrived = ({ fixture }: Awaited<ReturnType<typeof openDesk>>, text: string) =>
  eventually(
    async () => (await fixture.pool.query('SELECT 1 FROM session_messages WHERE text = $1', [text])).rows.length > 0,
  );

/** Opens the turn of a message that has arrived, as a process that ends before it answers does. */
async function leaveTurn(session: Session, text: string, leaseSeconds = 120) {
  await session.append([{ id: text, role: 'user', text }]);
  return session.openTurn({ id: text, trigger: 'channel', leaseSeconds });
}

/** Serves until the test ends it. */
function start(agent: ServedAgent, options: ServeOptions) {
  const stop = new AbortController();
  const served = serve(agent, { ...options, signal: stop.signal });
  served.catch(() => undefined);
  return { served, stop: () => stop.abort() };
}

/** The first message usually suffices: each takes the processor time of a whole turn. */
const LOOKS_PER_MESSAGE = 20;

/** Delivers messages, numbered, until something has happened: a stream begins with the next message. */
async function deliverUntil(
  desk: Awaited<ReturnType<typeof openDesk>>,
  text: string,
  hasHappened: () => Promise<boolean> | boolean,
): Promise<void> {
  let looks = 0;
  await eventually(async () => {
    if (looks % LOOKS_PER_MESSAGE === 0) await desk.deliver(`${text} ${looks}`);
    looks += 1;
    return hasHappened();
  });
}
const untilServed = (desk: Awaited<ReturnType<typeof openDesk>>): Promise<void> =>
  deliverUntil(desk, 'hello', async () => (await desk.sent()).length > 0);

t.test('every channel’s message is answered once, in order, and the reply is sent', async (t) => {
  const desk = await openDesk();
  const positions: string[] = [];
  const asked: string[] = [];
  const options = { channels: true, onPosition: (position: string) => void positions.push(position) };
  const agent: ServedAgent = async ({ text, trigger }) => {
    asked.push(text);
    return `${trigger}: ${text}!`;
  };
  const services = ['one', 'two'].map((runtime) => start(agent, { ...options, client: desk.client(runtime) }));
  await untilServed(desk);
  // Readers of server-sent events must not end a line at these characters.
  const odd = 'odd \u2028\u2029\u0085 lines';
  await desk.deliver('more', odd, 'and more');
  const sent = await eventually(async () => {
    const texts = await desk.sent();
    return texts.includes('channel: and more!') ? texts : undefined;
  });
  t.ok(sent.includes(`channel: ${odd}!`));
  t.equal(new Set(sent).size, sent.length, 'each reply is sent once, though two processes serve');
  t.equal(new Set(asked).size, asked.length, 'and one agent is asked');
  t.ok(sent.indexOf('channel: more!') < sent.indexOf('channel: and more!'), 'in order');
  t.ok(positions.length > 0);
  for (const { stop } of services) stop();
  for (const { served } of services) t.equal(await served, undefined, 'it ends with its signal');
});

t.test('an outage that is longer than the client retries ends neither the service nor a message', async (t) => {
  const desk = await openDesk();
  const token = await desk.fixture.issuer.issue(desk.fixture.account);
  // Requests to these addresses fail, so often.
  const outage = { path: /^/, left: 0 };
  const failNext = (path: RegExp): void => void Object.assign(outage, { path, left: 2 });
  const cut = new AbortController();
  const away: typeof fetch = async (input, init) => {
    const { pathname } = new URL(String(input));
    if (outage.left > 0 && outage.path.test(pathname)) {
      outage.left -= 1;
      // A proxy redirects to its maintenance page before it goes away.
      if (outage.left > 0) return Response.redirect('http://localhost/maintenance');
      throw new TypeError('fetch failed');
    }
    const ends = pathname.endsWith('/stream') && !cut.signal.aborted ? [cut.signal] : [];
    return fetch(input, { ...init, signal: AbortSignal.any([...ends, ...(init?.signal ? [init.signal] : [])]) });
  };
  const client = connect({ url, token, runtime: 'patient', retryForMs: 0, fetch: away });
  const errors: unknown[] = [];
  const asked: string[] = [];
  const agent: ServedAgent = async ({ text }, { session }) => {
    asked.push(text);
    if (text === 'at the end') failNext(/\/end$/);
    if (text === 'in the agent' && asked.filter((one) => one === text).length === 1) {
      failNext(/\/tools$/);
      await session.tools();
    }
    return `${text}!`;
  };
  const service = start(agent, { channels: true, client, onError: (error) => void errors.push(error) });
  await untilServed(desk);
  const isSent = (text: string) => eventually(async () => (await desk.sent()).includes(text));
  failNext(/\/turns$/);
  await desk.deliver('at the opening');
  await isSent('at the opening!');
  await desk.deliver('at the end');
  await isSent('at the end!');
  await desk.deliver('in the agent');
  await isSent('in the agent!');
  failNext(/\/sessions\/(?!stream$)[^/]+$/);
  await desk.deliver('other: at the look-up');
  await isSent('other: at the look-up!');
  failNext(/\/stream$/);
  cut.abort();
  await desk.deliver('between two streams');
  await isSent('between two streams!');
  t.same(errors, []);
  t.equal(outage.left, 0, 'each outage took place');
  t.same(
    asked.filter((text) => !text.startsWith('hello')),
    ['at the opening', 'at the end', 'in the agent', 'in the agent', 'other: at the look-up', 'between two streams'],
  );
  service.stop();
  t.equal(await service.served, undefined);
});

/** What an agent does before the service goes away, and whether it may begin again. */
const BEFORE_OUTAGE: Readonly<Record<string, { do: (session: Session) => Promise<unknown>; isRepeated: boolean }>> = {
  reply: { do: (session) => session.reply('Looking…'), isRepeated: false },
  append: { do: (session) => session.append([{ role: 'assistant', text: 'Looking…' }]), isRepeated: false },
  'to-do': { do: ({ services }) => services.createTodo({ title: 'look' }, { trigger: 'agent' }), isRepeated: false },
  'other turn': {
    do: async (session) => (await session.openTurn({ text: 'look', trigger: 'tool' })).output('Looking…'),
    isRepeated: false,
  },
  'only its preparations': {
    do: async (session) => {
      await session.offerTools({ tools: [] });
      await session.hook('systemPrompt', { systemPrompt: 'Be brief.' });
    },
    isRepeated: true,
  },
};
for (const [title, { do: act, isRepeated }] of listCases(BEFORE_OUTAGE, 'reply'))
  t.test(`an agent that meets an outage after ${title} ${isRepeated ? 'begins again' : 'is reported'}`, async (t) => {
    const desk = await openDesk();
    let isAway = false;
    const client = connect({
      url,
      token: await desk.fixture.issuer.issue(desk.fixture.account),
      retryForMs: 0,
      fetch: (input, init) => {
        const isLost = isAway && new URL(String(input)).pathname.endsWith('/skills');
        return isLost ? Promise.reject(new TypeError('fetch failed')) : fetch(input, init);
      },
    });
    const errors: unknown[] = [];
    let asked = 0;
    const agent: ServedAgent = async ({ text }, { session }) => {
      if (text !== 'look') return `${text}!`;
      asked += 1;
      isAway = asked === 1;
      await act(session);
      await session.skills();
      return 'looked';
    };
    const onError = (error: unknown) => void errors.push(error);
    const { stop, served } = start(agent, { channels: true, client, onError });
    await untilServed(desk);
    await desk.deliver('look', 'next');
    await eventually(async () => (await desk.sent()).includes('next!'));
    t.equal(asked, isRepeated ? 2 : 1);
    t.strictSame(errors.map(String), isRepeated ? [] : ['TypeError: fetch failed']);
    t.equal((await desk.sent()).includes('looked'), isRepeated);
    stop();
    t.equal(await served, undefined);
  });

soakTest(t, 'an agent whose call of a plugin fails because only that plugin does not run is reported', async (t) => {
  const desk = await openDesk();
  const slug = `weather-${desk.fixture.account}`;
  const described = { description: 'Fails.', parameters: {} };
  await desk.fixture.install({
    slug,
    code: 'throw new Error("not today");',
    registrations: { ...registerHooks(), tools: { forecast: described }, commands: { forecast: described } },
  });
  const client = connect({ url, token: await desk.fixture.issuer.issue(desk.fixture.account), retryForMs: 0 });
  const name = `${slug}__forecast`;
  const calls: Readonly<Record<string, (session: Session, id: string) => Promise<unknown>>> = {
    'tool of the session': (session) => session.callTool(name, {}),
    'tool of the turn': (session, id) => session.turn(id).call('call_0', name),
    command: (session) => session.runCommand(name),
  };
  const asked: string[] = [];
  const reported: object[] = [];
  const agent: ServedAgent = async ({ id, text }, { session }) => {
    const call = calls[text];
    if (!call) return `${text}!`;
    asked.push(text);
    return String(await call(session, id));
  };
  const onError = (error: unknown, { text }: { text: string }) => void reported.push({ text, error });
  const { stop, served } = start(agent, { channels: true, client, onError });
  await untilServed(desk);
  await desk.deliver(...Object.keys(calls), 'next');
  await eventually(async () => (await desk.sent()).includes('next!'));
  t.same(asked, Object.keys(calls), 'each is asked once');
  t.match(
    reported,
    asked.map((text) => ({ text, error: { status: 503, code: 'unavailable' } })),
  );
  t.equal(reported.length, asked.length);
  stop();
  t.equal(await served, undefined);
});

soakTest(t, 'while one process answers a message, the others wait with the next ones of its session', async (t) => {
  const desk = await openDesk();
  const asked: string[] = [];
  const isServing = [false, false];
  const released = Promise.withResolvers<void>();
  const agent: ServedAgent = async ({ text }) => {
    asked.push(text);
    if (text === 'more') await released.promise;
    return `${text}!`;
  };
  const services = isServing.map((_, at) => {
    const onPosition = () => {
      isServing[at] = true;
    };
    return start(agent, { channels: true, client: desk.client(`process ${at}`), onPosition });
  });
  await untilServed(desk);
  await deliverUntil(desk, 'other: hello', () => isServing.every(Boolean));
  await desk.deliver('more', 'and more');
  await eventually(async () => asked.includes('more'));
  // Other sessions go on, while both processes have the second message.
  for (const text of ['other: one', 'other: two', 'other: three']) {
    await desk.deliver(text);
    await eventually(async () => asked.includes(text));
  }
  t.notOk(asked.includes('and more'));
  released.resolve();
  const sent = await eventually(async () => {
    const texts = await desk.sent();
    return texts.includes('and more!') ? texts : undefined;
  });
  t.ok(sent.indexOf('more!') < sent.indexOf('and more!'));
  for (const { stop } of services) stop();
  for (const { served } of services) await served;
});

t.test('a position is reported only when every message before it is answered', async (t) => {
  const desk = await openDesk();
  const positions: string[] = [];
  const asked: string[] = [];
  const ask: ServedAgent = async ({ text }, { signal }) => {
    asked.push(text);
    if (text === 'slow: one')
      await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    return `${text}!`;
  };
  const options = { channels: true, client: desk.client('one'), onPosition: (at: string) => void positions.push(at) };
  const first = start(ask, options);
  await untilServed(desk);
  await eventually(async () => positions.length > 0);
  await desk.deliver('slow: one', 'slow: two');
  await eventually(async () => asked.includes('slow: one'));
  // The second message of a session comes to the agent when the first one is answered.
  await desk.deliver('fast: three', 'fast: four');
  await eventually(async () => asked.includes('fast: four'));
  first.stop();
  await first.served;
  const answer: ServedAgent = ({ text }) => Promise.resolve(`${text}!`);
  const next = start(answer, { ...options, after: positions.at(-1) ?? '' });
  await eventually(async () => (await desk.sent()).includes('slow: two!'));
  next.stop();
  await next.served;
  const sent = await desk.sent();
  t.equal(new Set(sent).size, sent.length, 'each message is answered once');
});

soakTest(t, 'what agents miss is reported, and turns of the runtime itself are left to it', async (t) => {
  const desk = await openDesk();
  const asked: string[] = [];
  const errors: unknown[] = [];
  const agent: ServedAgent = async ({ text }, { session }) => {
    asked.push(text);
    if (text === 'read') return (await session.readSkill('nothing')).text;
    return 'ready';
  };
  const onError = (error: unknown) => void errors.push(error);
  const { stop, served } = start(agent, { channels: true, client: desk.client('one'), onError });
  await untilServed(desk);
  const [record] = (await desk.client('one').list()).items;
  const session = desk.client('one').open(record?.id ?? '');
  const own = await session.openTurn({ id: 'own', text: 'mine', trigger: 'channel' });
  await desk.deliver('read');
  await eventually(async () => asked.includes('read') && errors.length > 0);
  t.match(errors, [{ name: 'BulkheadError', code: 'not_found' }]);
  t.notOk(asked.includes('mine'));
  await own.end();
  stop();
  await served;
});

t.test('a stopped process’s turn is answered when its lease has expired; leases are renewed', async (t) => {
  const desk = await openDesk();
  // The wait for resources that it leaves open ends after this time.
  const idle = start(() => Promise.resolve('ready'), { channels: true, leaseSeconds: 1, client: desk.client('idle') });
  await untilServed(desk);
  idle.stop();
  await idle.served;
  const [record] = (await desk.client('gone').list()).items;
  const session = desk.client('gone').open(record?.id ?? '');
  await leaveTurn(session, 'left', 1);
  const seen = Promise.withResolvers<void>();
  const agent: ServedAgent = async ({ text }) => {
    if (text === 'left') await seen.promise;
    return `${text}!`;
  };
  const { stop, served } = start(agent, { channels: true, leaseSeconds: 1, client: desk.client('two') });
  const readLease = async () => (await session.turn('left').look()).turn.lease;
  const taken = await eventually(async () => {
    const lease = await readLease();
    return lease.runtime === 'two' ? lease : undefined;
  });
  await eventually(async () => (await readLease()).until > taken.until);
  seen.resolve();
  await eventually(async () => (await desk.sent()).includes('left!'));
  stop();
  await served;
  t.pass();
});

soakTest(t, 'a lease is renewed again after the service could not be reached once', async (t) => {
  const desk = await openDesk();
  const renewed = Promise.withResolvers<void>();
  let isAnswering = false;
  let renewals = 0;
  const agent: ServedAgent = async ({ text }) => {
    if (text === 'long') {
      isAnswering = true;
      await renewed.promise;
    }
    return 'ready';
  };
  const client = connect({
    url,
    token: await desk.fixture.issuer.issue(desk.fixture.account),
    runtime: 'one',
    fetch: async (input, init) => {
      if (!isAnswering || !new URL(String(input)).pathname.endsWith('/turns')) return fetch(input, init);
      renewals += 1;
      if (renewals === 1) return Response.json({ code: 'internal' }, { status: 500 });
      renewed.resolve();
      return fetch(input, init);
    },
  });
  const { stop, served } = start(agent, { channels: true, leaseSeconds: 2, client });
  await untilServed(desk);
  await desk.deliver('long');
  await renewed.promise;
  stop();
  await served;
  // A slow end of the turn takes another one.
  t.ok(renewals >= 2);
});

t.test('an agent reads what plugins made of a message that was added unjudged', async (t) => {
  const desk = await openDesk();
  await desk.fixture.install({
    slug: `mask-${desk.fixture.account}`,
    code: `middleware.inboundMessage = ({ message }) => (
      { message: { text: message.text.replace('4111', '[card]'), attachments: [] } });`,
  });
  const read: object[] = [];
  const agent: ServedAgent = async ({ text, message }) => {
    // The messages that show that it is served may be read later.
    if (text.startsWith('pay')) read.push({ text, of: message.text, attachments: message.data?.attachments });
    return 'ready';
  };
  const { stop, served } = start(agent, { channels: true, client: desk.client('one') });
  await untilServed(desk);
  const [session] = (await desk.client('two').list()).items;
  const attachments = [{ name: 'card.png', mediaType: 'image/png', url: 'https://example.com/card.png' }];
  const sent = { role: 'user', text: 'pay 4111', data: { attachments } };
  await desk.fixture.call('POST', `/sessions/${session?.id}/messages`, { messages: [sent] });
  await eventually(async () => read.length > 0);
  t.same(read, [{ text: 'pay [card]', of: 'pay [card]', attachments: [] }]);
  stop();
  await served;
});

t.test('an agent may stream, end its turn itself, or be stopped by a plugin', async (t) => {
  const desk = await openDesk();
  const agent: ServedAgent = ({ id, text }, { session }) => {
    const pieces = async function* () {
      yield 'in ';
      yield 'pieces';
    };
    const endTurn = async () => {
      const turn = await session.openTurn({ id, trigger: 'channel', systemPrompt: 'Be brief.' });
      await turn.end(`by the agent: ${(await turn.prompt()).systemPrompt}`);
    };
    if (text === 'stream') return pieces();
    if (text === 'own') return endTurn();
    return Promise.resolve(text === 'secret' ? 'it is classified' : 'ready');
  };
  const { stop, served } = start(agent, { channels: true, client: desk.client('one') });
  await untilServed(desk);
  await desk.deliver('stream', 'own', 'secret', 'last');
  await eventually(
    async () => (await desk.sent()).at(-1) === 'ready' && (await desk.sent()).includes('by the agent: Be brief.'),
  );
  t.same(
    (await desk.sent()).filter((text) => text !== 'ready'),
    ['in pieces', 'by the agent: Be brief.'],
  );
  stop();
  await served;
  const [session] = (await desk.client('two').list()).items;
  t.same(
    (
      await desk
        .client('two')
        .open(session?.id ?? '')
        .turns({ state: 'open' })
    ).items,
    [],
    'no turn is left open',
  );
});

soakTest(t, 'an agent on an adapter answers in the turn that was opened for it', async (t) => {
  const desk = await openDesk();
  const server = await startModelServer(t);
  server.answers = [
    (response) => {
      const choice = { index: 0, message: { role: 'assistant', content: 'from the model' }, finish_reason: 'stop' };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices: [choice] }));
    },
  ];
  const model = createOpenAICompatible({ name: 'local', baseURL: server.url })('m');
  const agent: ServedAgent = async ({ id, text }, { session, signal }) => {
    const middleware = bulkhead(session, { messageId: id, trigger: 'channel' });
    await generateText({
      model: wrapLanguageModel({ model, middleware }),
      system: 'Be brief.',
      prompt: text,
      abortSignal: signal,
    });
  };
  const { stop, served } = start(agent, { channels: true, client: desk.client('one') });
  await untilServed(desk);
  stop();
  await served;
  const [asked] = server.asked;
  t.match(asked?.body.messages, [{ role: 'system', content: 'Be brief.' }, { role: 'user' }]);
  t.equal((await desk.sent())[0], 'from the model');
  const judged = (await desk.fixture.readLog('inbound')).map(({ text }: { text: string }) => text);
  t.equal(new Set(judged).size, judged.length, 'each message was judged once');
});

soakTest(
  t,
  'the reply of an agent on an adapter is its whole answer, also if the model writes several texts',
  async (t) => {
    const desk = await openDesk();
    const texts = ['Two loaves', ', says the list', '.'];
    const agent: ServedAgent = async ({ id, text: prompt }, { session, signal }) => {
      const middleware = bulkhead(session, { messageId: id, trigger: 'channel' });
      const model = wrapLanguageModel({
        model: createModelOfTexts(prompt.startsWith('hello') ? ['ready'] : texts),
        middleware,
      });
      if (prompt === 'stream') await streamText({ model, prompt, abortSignal: signal }).consumeStream();
      else await generateText({ model, prompt, abortSignal: signal });
    };
    const { stop, served } = start(agent, { channels: true, client: desk.client('one') });
    await untilServed(desk);
    await desk.deliver('generate', 'stream');
    const readReplies = async () => (await desk.sent()).filter((text) => text !== 'ready');
    await eventually(async () => (await readReplies()).length === 2);
    t.same(await readReplies(), [texts.join(''), texts.join('')]);
    stop();
    await served;
  },
);

t.test('an answer of an adapter that a plugin stops ends its turn, and the next message is answered', async (t) => {
  const desk = await openDesk();
  const server = await startModelServer(t);
  server.answers = [
    (response, { body }) => {
      const asked = JSON.stringify(body.messages.at(-1));
      const content = asked.includes('secret') ? 'it is classified' : asked.includes('last') ? 'the last' : 'ready';
      const choice = { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices: [choice] }));
    },
  ];
  const model = createOpenAICompatible({ name: 'local', baseURL: server.url })('m');
  const agent: ServedAgent = async ({ id, text }, { session, signal }) => {
    const middleware = bulkhead(session, { messageId: id, trigger: 'channel' });
    await generateText({ model: wrapLanguageModel({ model, middleware }), prompt: text, abortSignal: signal });
  };
  const { stop, served } = start(agent, { channels: true, client: desk.client('one') });
  await untilServed(desk);
  await desk.deliver('secret', 'last');
  await eventually(async () => (await desk.sent()).includes('the last'));
  t.notOk((await desk.sent()).some((text) => text.includes('classified')));
  t.same(await listTurns(desk, 'open'), [], 'no turn is left, with which the next process would go on');
  stop();
  t.equal(await served, undefined, 'no error ended it');
});

t.test('an agent that fails ends it, or is reported; the next process goes on with the turn', async (t) => {
  const desk = await openDesk();
  const failing = start(() => Promise.reject(new Error('no model')), { channels: true, client: desk.client('one') });
  const failed = failing.served.then(
    () => null,
    (error: Error) => error.message,
  );
  let isOver = false;
  void failed.then(() => {
    isOver = true;
  });
  await deliverUntil(desk, 'lost', () => isOver);
  t.equal(await failed, 'no model');
  const [session] = (await desk.client('one').list()).items;
  const left = await leaveTurn(desk.client('one').open(session?.id ?? ''), 'left');
  t.equal(left.record?.state, 'open');
  const errors: string[] = [];
  const agent: ServedAgent = async ({ text }) => {
    if (text !== 'left') throw new Error('not this one');
    return 'picked up';
  };
  const onError = (error: unknown) => void errors.push((error as Error).message);
  const next = start(agent, { channels: true, client: desk.client('one'), onError });
  await eventually(async () => (await desk.sent()).includes('picked up'));
  await deliverUntil(desk, 'other', () => errors.length > 0);
  t.equal(errors[0], 'not this one');
  next.stop();
  await next.served;
});

t.test('a message whose turn a required plugin does not let open waits, also for the next process', async (t) => {
  const desk = await openDesk();
  const guard = await installGuard(desk);
  const positions: string[] = [];
  let long = Promise.withResolvers<void>();
  const asked: string[] = [];
  const agent: ServedAgent = async ({ text, message }) => {
    asked.push(text);
    if (text === 'long') await long.promise;
    return `${message.text}!`;
  };
  const onError = (error: unknown) => t.fail(String(error));
  const options = { channels: true, onError, onPosition: (position: string) => void positions.push(position) };
  const first = start(agent, { ...options, client: desk.client('one') });
  await untilServed(desk);
  await desk.deliver('long', 'late');
  await eventually(async () => asked.includes('long'));
  await untilArrived(desk, 'late');
  await guard.failAt('inboundMessage');
  long.resolve();
  await eventually(async () => (await listTurns(desk, 'judging')).length > 0);
  await eventually(async () => (await desk.sent()).includes('long!'));
  const reported = positions.length;
  await guard.failAt('');
  await eventually(async () => (await desk.sent()).includes('late!'));
  await eventually(async () => positions.length > reported);
  t.equal(asked.filter((text) => text === 'late').length, 1);
  if (!isSoak()) {
    first.stop();
    await first.served;
    return;
  }

  // The agent is held until the guard fails: the second message is judged right after its answer.
  long = Promise.withResolvers();
  await desk.deliver('long', 'later');
  await eventually(async () => asked.filter((text) => text === 'long').length === 2);
  await untilArrived(desk, 'later');
  await guard.failAt('inboundMessage');
  long.resolve();
  await eventually(async () => (await listTurns(desk, 'judging')).length > 0);
  const before = positions.length;
  first.stop();
  await first.served;
  t.equal(positions.length, before, 'the position is not reported');
  await guard.failAt('');
  const next = start(agent, { ...options, client: desk.client('one') });
  await eventually(async () => (await desk.sent()).includes('later!'));
  next.stop();
  await next.served;
  const sent = await desk.sent();
  t.equal(new Set(sent.filter((text) => text !== 'long!')).size, sent.filter((text) => text !== 'long!').length);
});

t.test('an answer that a required plugin does not judge now is sent when it does', async (t) => {
  const desk = await openDesk();
  const guard = await installGuard(desk);
  let asked = 0;
  const agent: ServedAgent = async ({ text }) => {
    if (text === 'count') asked += 1;
    return text === 'count' ? `answer ${asked}` : 'ready';
  };
  const { stop, served } = start(agent, { channels: true, leaseSeconds: 1, client: desk.client('one') });
  await untilServed(desk);
  await eventually(async () => (await listTurns(desk, 'open')).length === 0);
  await guard.failAt('outboundMessage');
  await desk.deliver('count');
  await eventually(async () => (await desk.fixture.readLog('refused')).length > 2);
  t.equal((await listTurns(desk, 'open')).length, 1);
  await guard.failAt('');
  await eventually(async () => (await desk.sent()).includes('answer 1'));
  t.equal(asked, 1, 'the agent is not asked again');
  stop();
  await served;
});

soakTest(
  t,
  'an agent whose adapter met a required plugin that does not run begins again, unless it did something',
  async (t) => {
    const desk = await openDesk();
    const errors: unknown[] = [];
    let asked = 0;
    const agent: ServedAgent = async ({ id, text }, { session }) => {
      if (text !== 'veto' && text !== 'late veto') return 'ready';
      asked += 1;
      if (text === 'late veto') await session.turn(id).output('a beginning');
      if (text === 'late veto' || asked === 1) throw new VetoError('guard', 'It does not run.', false);
      return 'answered';
    };
    const onError = (error: unknown) => void errors.push(error);
    const { stop, served } = start(agent, { channels: true, client: desk.client('one'), onError });
    await untilServed(desk);
    await desk.deliver('veto');
    await eventually(async () => (await desk.sent()).includes('answered'));
    t.same([asked, errors], [2, []]);
    await desk.deliver('late veto');
    await eventually(async () => errors.length > 0);
    t.match(errors, [{ name: 'VetoError', isFinal: false }]);
    t.equal(asked, 3);
    stop();
    await served;
  },
);

t.test(
  'a process that starts goes on with all open turns, not only those of the first page, and leaves those of other runtimes',
  async (t) => {
    const desk = await openDesk();
    const seen = start(() => Promise.resolve('ready'), { channels: true, client: desk.client('one') });
    await untilServed(desk);
    seen.stop();
    await seen.served;
    const [record] = (await desk.client('one').list()).items;
    const left = desk.client('one').open(record?.id ?? '');
    for (const text of ['first', 'second', 'third']) await leaveTurn(left, text);
    const own = await left.openTurn({ id: 'own', text: 'mine', trigger: 'channel' });
    const client = connect({
      url,
      token: await desk.fixture.issuer.issue(desk.fixture.account),
      runtime: 'one',
      fetch: (input, init) => {
        const address = new URL(String(input));
        if (address.pathname === '/sessions/turns') address.searchParams.set('limit', '1');
        return fetch(address, init);
      },
    });
    const next = start(({ text }) => Promise.resolve(`${text}!`), { channels: true, client });
    await eventually(async () => (await desk.sent()).includes('third!'));
    next.stop();
    await next.served;
    const texts = (await desk.sent()).filter((text) => !text.startsWith('hello'));
    t.same(
      texts.filter((text) => text !== 'ready'),
      ['first!', 'second!', 'third!'],
    );
    t.equal((await own.look()).turn.state, 'open');
  },
);

soakTest(
  t,
  'a start costs no requests of sessions without open turns, and outlives one that is deleted meanwhile',
  async (t) => {
    const desk = await openDesk();
    const first = start(() => Promise.resolve('ready'), { channels: true, client: desk.client('one') });
    await untilServed(desk);
    first.stop();
    await first.served;
    const reader = desk.client('one');
    const [record] = (await reader.list()).items;
    await leaveTurn(reader.open(record?.id ?? ''), 'left');
    const doomed = await reader.start({ agentId: 'doomed' });
    await leaveTurn(doomed, 'doomed');
    const idle = await Promise.all(Array.from({ length: 5 }, (_, at) => reader.start({ agentId: `idle ${at}` })));
    const asked: string[] = [];
    const client = connect({
      url,
      token: await desk.fixture.issuer.issue(desk.fixture.account),
      runtime: 'one',
      fetch: async (input, init) => {
        const { pathname } = new URL(String(input));
        asked.push(pathname);
        const response = await fetch(input, init);
        // It was listed, and its turns were not read yet.
        if (['/sessions', '/sessions/turns'].includes(pathname)) await doomed.delete().catch(() => undefined);
        return response;
      },
    });
    const next = start(({ text }) => Promise.resolve(`${text}!`), { channels: true, client });
    await eventually(async () => (await desk.sent()).includes('left!'));
    next.stop();
    t.equal(await next.served, undefined);
    t.same(
      idle.filter(({ id }) => asked.some((path) => path.includes(id))),
      [],
    );
    t.equal(asked.filter((path) => path === '/sessions/turns').length, 1);
  },
);

soakTest(t, 'messages of a session that is cleared before their turns open are over', async (t) => {
  const desk = await openDesk();
  const asked: string[] = [];
  const released = Promise.withResolvers<void>();
  const agent: ServedAgent = async ({ text }) => {
    asked.push(text);
    if (text === 'long') await released.promise;
    return `${text}!`;
  };
  const { stop, served } = start(agent, { channels: true, client: desk.client('one') });
  await untilServed(desk);
  await desk.deliver('long', 'late');
  await eventually(async () => asked.includes('long'));
  await untilArrived(desk, 'late');
  const reader = desk.client('two');
  const [session] = (await reader.list()).items;
  await reader.open(session?.id ?? '').clear();
  released.resolve();
  await desk.deliver('next');
  await eventually(async () => (await desk.sent()).includes('next!'));
  t.notOk(asked.includes('late'));
  stop();
  t.equal(await served, undefined);
});

t.test('serve says that a service is too old', async (t) => {
  const isList = (input: unknown) => new URL(String(input)).pathname === '/sessions/turns';
  const client = connect({
    url,
    token: await shared.issuer.issue('old'),
    // As a service without the list answers.
    fetch: (input, init) => fetch(isList(input) ? `${url}/sessions/unknown` : input, init),
  });
  const served = serve(() => Promise.resolve(''), { channels: true, client });
  await t.rejects(served, { message: /GET \/sessions\/turns.* Update the service/ });
});

soakTest(t, 'an answer with characters that cannot be stored is sent without them', async (t) => {
  const desk = await openDesk();
  const agent: ServedAgent = ({ text }) => Promise.resolve(text === 'odd' ? 'cut \ud83d and nul \0' : 'ready');
  const { stop, served } = start(agent, { channels: true, client: desk.client('one') });
  await untilServed(desk);
  await desk.deliver('odd');
  await eventually(async () => (await desk.sent()).includes('cut \ufffd and nul \ufffd'));
  stop();
  t.equal(await served, undefined);
});

const readText = (content: unknown): string =>
  typeof content === 'string' ? content : String((content as { text?: string }[])[0]?.text);

/** A model that has an agent translate, and then answers. What it is asked is its last item. */
const createInterpreter = (asked: string[], translate: (text: string) => string): Model =>
  ({
    async getResponse({ input }: { input: string | AgentInputItem[] }) {
      const last = typeof input === 'string' ? { role: 'user', content: input } : (input.at(-1) ?? {});
      const text = 'content' in last ? readText(last.content) : '';
      const isResult = 'type' in last && last.type === 'function_call_result';
      if (!isResult) asked.push(text);
      if (text.startsWith('hello')) return { usage: new Usage(), output: [assistant('ready')] };
      const isInner = asked.filter((one) => !one.startsWith('hello')).length === 2 && !isResult;
      const call = { callId: 'call_0', name: 'translate', arguments: JSON.stringify({ input: translate(text) }) };
      const output = [{ type: 'function_call' as const, ...call }];
      if (!isResult && !isInner) return { usage: new Usage(), output };
      return { usage: new Usage(), output: [assistant(isInner ? 'internal words' : 'the answer')] };
    },
  }) as unknown as Model;

for (const isSame of amount({ quick: [], soak: [false, true] }))
  t.test(
    `an agent that is a tool has a turn of its own, and no reply${isSame ? ', also with the same words' : ''}`,
    async (t) => {
      const desk = await openDesk();
      const asked: string[] = [];
      const interpreter = createInterpreter(asked, (text) => (isSame ? text : `in French: ${text}`));
      const modelProvider = { getModel: () => interpreter };
      const agent: ServedAgent = async ({ id, text }, { session, signal }) => {
        const settings = openAiAgents.bulkhead(session, { messageId: id, trigger: 'channel', modelProvider });
        const translator = new Agent({ name: 'Translator', model: 'm' });
        const options = { toolName: 'translate', toolDescription: 'Translates' };
        const tools = [openAiAgents.agentTool(settings, translator, options)];
        await new Runner({ ...settings, tracingDisabled: true }).run(
          new Agent({ name: 'Desk', model: 'm', tools }),
          text,
          { signal },
        );
      };
      const { stop, served } = start(agent, { channels: true, mail: true, client: desk.client('one') });
      await untilServed(desk);
      await desk.deliver('bread');
      await eventually(async () => (await desk.sent()).some((text) => text !== 'ready'));
      await desk.deliver('hello last');
      await eventually(async () => asked.includes('hello last'));
      stop();
      t.equal(await served, undefined);
      t.same(
        (await desk.sent()).filter((text) => text !== 'ready'),
        ['the answer'],
        'one reply',
      );
      t.same(
        asked.filter((text) => !text.startsWith('hello')),
        ['bread', isSame ? 'bread' : 'in French: bread'],
        'each agent is asked its own words',
      );
      const [session] = (await desk.client('two').list()).items;
      const turns = await desk
        .client('two')
        .open(session?.id ?? '')
        .turns({ order: 'newest' });
      const inner = turns.items.filter(({ trigger }) => trigger === 'tool');
      t.match(inner, [{ state: 'ended', message: { text: isSame ? 'bread' : 'in French: bread' } }]);
      t.equal(inner.length, 1);
    },
  );
