/** Rate limits of the session API: by address before a token is verified, by account afterwards. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { FastifyInstance } from 'fastify';
import t from 'tap';
import { limits } from '../../../sdk/contract/limits.ts';
import { eventually } from '../../runner/eventually.ts';
import { storeKey, waitForKey } from '../held-handlers.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

interface Asking {
  readonly from: string;
  readonly token?: string;
  readonly forwarded?: string;
}
const ask = async (app: FastifyInstance, { from, token, forwarded }: Asking) =>
  app.inject({
    method: 'GET',
    url: '/sessions',
    remoteAddress: from,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }),
    },
  });
async function statuses(app: FastifyInstance, asked: readonly Asking[]): Promise<number[]> {
  const seen: number[] = [];
  for (const one of asked) seen.push((await ask(app, one)).statusCode);
  return seen;
}

/** Each test has addresses and accounts of its own. */
const fixture = await startSupervisorFixture(t, {
  sessionApi: { anonymousPerMinute: 2, accountLimits: { reads: 2, writes: 1 } },
});

t.test('requests without a token are limited by address', async (t) => {
  const from = '192.0.2.1';
  t.same(await statuses(fixture.app, [{ from, token: 'nonsense' }, { from }]), [401, 401], 'no token counts too');
  const refused = await ask(fixture.app, { from, token: 'nonsense' });
  t.match(refused.json(), { status: 429, code: 'rate_limited', detail: /^Rate limit exceeded: 2 requests per minute/ });
  t.match(refused.headers['content-type'], /^application\/problem\+json/);
  const wait = Number(refused.headers['retry-after']);
  t.ok(wait >= 1 && wait <= 60, `Retry-After: ${wait}`);
  t.same(await statuses(fixture.app, [{ from: '192.0.2.2' }]), [401], 'another address is not held up');
  const sixes = ['2001:db8::1', '2001:db8::2', '2001:db8::3'].map((from) => ({ from }));
  t.same(await statuses(fixture.app, sixes), [401, 401, 429], 'a network of IPv6 counts as one');
});

t.test('signed-in callers are not affected by a flood from the same address', async (t) => {
  const from = '192.0.2.3';
  const tokens = await Promise.all(Array.from({ length: 8 }, (_, index) => fixture.issuer.issue(`user-${index}`)));
  t.same(
    await statuses(
      fixture.app,
      tokens.map((token) => ({ from, token })),
    ),
    tokens.map(() => 200),
    'good tokens use up nothing',
  );
  await statuses(
    fixture.app,
    Array.from({ length: 5 }, () => ({ from, token: 'nonsense' })),
  );
  t.same(
    await statuses(fixture.app, [
      { from, token: 'nonsense' },
      { from, token: tokens[0] as string },
    ]),
    [429, 200],
  );
});

t.test('calls and reads of an account are counted apart, and no other account’s', async (t) => {
  const ann = await fixture.issuer.issue('ann');
  const ben = await fixture.issuer.issue('ben');
  const from = '192.0.2.4';
  t.same(
    await statuses(
      fixture.app,
      [ann, ann, ann, ben].map((token) => ({ from, token })),
    ),
    [200, 200, 429, 200],
  );
  const open = () =>
    fixture.app.inject({ method: 'POST', url: '/sessions', headers: { authorization: `Bearer ${ann}` }, payload: {} });
  t.not((await open()).statusCode, 429);
  const refused = await open();
  t.match(refused.json(), {
    code: 'rate_limited',
    detail: /^Rate limit exceeded: 1 writes per minute of one account\./,
  });
  t.ok(Number(refused.headers['retry-after']) >= 1);
});

t.test('X-Forwarded-For is believed from a trusted proxy only', async (t) => {
  const forged = ['198.51.100.1', '198.51.100.2', '198.51.100.3'].map((forwarded) => ({ from: '10.1.2.3', forwarded }));
  t.same(await statuses(fixture.app, forged), [401, 401, 429], 'without the setting it changes nothing');
  const trusting = await startSupervisorFixture(t, {
    sessionApi: { anonymousPerMinute: 2, trustProxy: ['10.0.0.0/8'] },
  });
  t.same(await statuses(trusting.app, forged), [401, 401, 401], 'each caller is counted apart');
  const outside = forged.map(({ forwarded }) => ({ from: '192.0.2.1', forwarded }));
  t.same(await statuses(trusting.app, outside), [401, 401, 429], 'not from anybody else');
});

t.test(
  'a call beyond those that a child runs and keeps waiting is refused, and is no answer of the plugin',
  async (t) => {
    const fixture = await startSupervisorFixture(t, { childBounds: { ...limits, callsInFlight: 1, callsWaiting: 0 } });
    const { account, call, issuer, app } = fixture;
    const code = `
    tools.hold = { description: 'd', parameters: {}, handler: async () => { ${waitForKey("'go'")} return 'held'; } };
    tools.quick = { description: 'd', parameters: {}, handler: () => 'quick' };
    commands.greet = { description: 'd', handler: () => 'hello' };`;
    const installed = await fixture.install({ slug: 'slow', code, capabilities: ['host.storage'] });
    const session = await fixture.session();
    const callTool = (name: string) => call('POST', `/sessions/${session}/tools/slow__${name}`, { arguments: {} });
    t.equal((await callTool('quick')).status, 200);
    await call('POST', `/sessions/${session}/turns`, { id: 't1', text: 'hello', trigger: 'user' });
    const held = callTool('hold');
    const detail = 'slow__quick: too many calls wait for this plugin. Retry after 2 s.';
    const refused = await eventually(async () => {
      const answer = await callTool('quick');
      return answer.status !== 200 && answer;
    });
    t.match(refused, { status: 429, headers: { 'retry-after': '2' }, body: { code: 'rate_limited', detail } });
    const greet = await call('POST', `/sessions/${session}/commands/slow__greet`, { input: '' });
    t.match(greet, { status: 429, body: { code: 'rate_limited' } });
    const callInTurn = () =>
      call('POST', `/sessions/${session}/turns/t1/calls/c1`, { name: 'slow__quick', arguments: {} });
    t.match(await callInTurn(), { status: 429, body: { code: 'rate_limited', detail } });

    const address = await app.listen({ port: 0, host: '127.0.0.1' });
    const client = new Client({ name: 'test', version: '1.0.0' });
    t.teardown(() => client.close());
    const requestInit = { headers: { authorization: `Bearer ${await issuer.issue(account)}` } };
    const url = new URL(`${address}/sessions/${session}/mcp`);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }) as never);
    t.match(await client.callTool({ name: 'slow__quick', arguments: {} }), {
      isError: true,
      content: [{ text: detail }],
    });
    const prompt = client.getPrompt({ name: 'slow__greet', arguments: { input: 'x' } });
    await t.rejects(prompt, { code: -32_603, data: { code: 'rate_limited' } }, 'it is no fault of the arguments');

    await storeKey(fixture.pool, installed, 'go');
    t.match(await held, { status: 200, body: { content: [{ text: 'held' }] } });
    t.match(await callInTurn(), { status: 200, body: { content: [{ text: 'quick' }] } }, 'the same call again');
  },
);
