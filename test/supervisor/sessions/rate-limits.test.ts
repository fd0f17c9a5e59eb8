/** Rate limits of the session API: by address before a token is verified, by account afterwards. */
import type { FastifyInstance } from 'fastify';
import t from 'tap';
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
