/** A conformance run waits when a rate limit of the deployment asks it to. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { Account } from '../../conform/account.ts';
import { Run } from '../../conform/run.ts';

/** Answers each path from a list, one after another, and then with 200. */
async function startServer(refusals: Record<string, { status: number; code: string; retryAfter: number }[]>) {
  const arrivals: { path: string; at: number }[] = [];
  const server = createServer((request, response) => {
    const path = String(request.url).split('/').at(-1) ?? '';
    arrivals.push({ path, at: performance.now() });
    const refusal = refusals[path]?.shift();
    response.setHeader('content-type', 'application/json');
    if (refusal) response.setHeader('retry-after', refusal.retryAfter);
    response.writeHead(refusal?.status ?? 200).end(JSON.stringify({ code: refusal?.code, path }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const rest = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const addresses = { rest, sessions: null, webhooks: null };
  return { account: new Account(addresses, 'token'), run: new Run(addresses, 'token', 'other'), arrivals };
}

t.test('a rate limit delays every call, and the wait does not count as time of the run', async (t) => {
  const { account, arrivals } = await startServer({ first: [{ status: 429, code: 'rate_limited', retryAfter: 1 }] });
  const first = account.get('/first');
  while (account.refusals.size === 0) await new Promise((resolve) => setImmediate(resolve));
  const answers = await Promise.all([first, account.get('/second')]);
  t.same(
    answers.map(({ status }) => status),
    [200, 200],
  );
  t.same(arrivals.map(({ path }) => path).toSorted(), ['first', 'first', 'second']);
  const [refused, ...later] = arrivals.map(({ at }) => at);
  t.ok(
    later.every((at) => at - Number(refused) >= 990),
    'no call was sent for a second',
  );
  t.equal(account.waitedMs, 1000);
  t.match(account.refusals.get('rate_limited'), { status: 429, body: { code: 'rate_limited' } });
});

t.test('a busy bundler delays only the refused call', async (t) => {
  const { account, arrivals } = await startServer({ busy: [{ status: 503, code: 'bundler_busy', retryAfter: 1 }] });
  const busy = account.post('/busy', {});
  while (account.refusals.size === 0) await new Promise((resolve) => setImmediate(resolve));
  t.equal((await account.get('/other')).status, 200);
  t.same(arrivals.map(({ path }) => path).slice(0, 2), ['busy', 'other']);
  t.equal((await busy).status, 200);
  t.equal(account.waitedMs, 0);
});

t.test('a refusal without a short wait, or of a call that must not be repeated, is returned at once', async (t) => {
  const { account, arrivals } = await startServer({
    cap: [{ status: 429, code: 'installation_cap', retryAfter: 3600 }],
    final: [{ status: 503, code: 'unavailable', retryAfter: 1 }],
    broken: [{ status: 503, code: 'other', retryAfter: 1 }],
  });
  t.equal((await account.get('/cap')).status, 429);
  t.equal((await account.get('/final', { isFinal: true })).status, 503);
  t.equal((await account.get('/broken')).status, 503);
  t.equal(arrivals.length, 3);
});

t.test('a row that still runs when its run is closed sends nothing more', async (t) => {
  const { run, arrivals } = await startServer({ waits: [{ status: 503, code: 'unavailable', retryAfter: 1 }] });
  const refused = t.rejects(run.own.post('/waits'), /the run has ended/);
  while (run.own.refusals.size === 0) await new Promise((resolve) => setImmediate(resolve));
  run.onClose('something', (own) => own.delete('/something'));
  t.same(await run.close(), []);
  await refused;
  for (const account of [run.own, run.other]) await t.rejects(account.post('/late'), /the run has ended/);
  t.same(
    arrivals.map(({ path }) => path),
    ['waits', 'something'],
  );
});
