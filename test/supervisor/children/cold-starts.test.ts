/** Many plugins that do not run yet are called at the same moment. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { eventually } from '../../runner/eventually.ts';
import { amount } from '../../runner/soak.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const INSTALLATIONS = amount({ quick: 8, soak: 1_000 });
/** As many of each account; the first is required. */
const OF_ACCOUNT = 4;
const PLACES = amount({ quick: 3, soak: 100 });
/** A link's budget and a tool's, with what the whole answer may take more: much, where other tests run beside this one. */
const [HOOK_MS, TOOL_MS] = amount({ quick: [60_000, 90_000], soak: [20_000, 75_000] });
const GUARD = `middleware.inboundMessage = (ctx) => { ctx.cancel('seen'); };`;
const TOOL = `tools.x = { description: 'x', parameters: { type: 'object' }, handler: () => 'ran' };`;

t.test(
  'each required plugin runs or stops its operation with the reason; the others wait within their budget',
  async (t) => {
    const complaints: string[] = [];
    const stream = new Writable({
      write(line, _encoding, done) {
        // Refused calls are logged as problems.
        if (JSON.parse(String(line)).err?.type !== 'Problem') complaints.push(String(line));
        done();
      },
    });
    const logger = pino({ level: 'warn' }, stream);
    const fixture = await startSupervisorFixture(t, { childrenMax: PLACES, logger });
    const calls: {
      readonly kind: 'guard' | 'tool';
      readonly account: string;
      readonly path: string;
      readonly body: object;
    }[] = [];
    for (let number = 0; number < INSTALLATIONS; number += 1) {
      const account = `account-${Math.floor(number / OF_ACCOUNT)}`;
      const slug = `plugin-${number}`;
      const isGuard = number % OF_ACCOUNT === 0;
      await fixture.install({ account, slug, code: isGuard ? GUARD : TOOL, required: isGuard });
      const session = await fixture.session(account);
      const message = { id: 'm', from: 'bob', text: 'a', attachments: [] };
      calls.push(
        isGuard
          ? {
              kind: 'guard',
              account,
              path: `/sessions/${session}/hooks/inboundMessage`,
              body: { context: { message } },
            }
          : { kind: 'tool', account, path: `/sessions/${session}/tools/${slug}__x`, body: { arguments: {} } },
      );
    }
    const loop = monitorEventLoopDelay({ resolution: 10 });
    loop.enable();
    const started = performance.now();
    const answers = await Promise.all(
      calls.map(async ({ kind, account, path, body }) => {
        // `fixture.call` would repeat a hook that is refused.
        const headers = { authorization: `Bearer ${await fixture.issuer.issue(account)}` };
        const answer = await fixture.app.inject({ method: 'POST', url: path, headers, payload: body });
        return { kind, status: answer.statusCode, body: answer.json(), ms: performance.now() - started };
      }),
    );
    loop.disable();
    const took = performance.now() - started;
    const counts = { ran: 0, stopped: 0, toolsRan: 0, toolsRefused: 0 };
    const faults: string[] = [];
    let [slowestGuard, slowestTool] = [0, 0];
    for (const { kind, status, body, ms } of answers) {
      if (kind === 'guard') {
        slowestGuard = Math.max(slowestGuard, ms);
        if (body.reason === 'seen') counts.ran += 1;
        else if (/(could not run|did not answer within \d+ s), and this account requires it/.test(body.reason))
          counts.stopped += 1;
        else faults.push(`${status} ${JSON.stringify(body)}`);
      } else {
        slowestTool = Math.max(slowestTool, ms);
        if (status === 200) counts.toolsRan += 1;
        else counts.toolsRefused += 1;
        const reason = /no plugin process became free|still starting|not ready within|not ready in time/;
        if (status !== 200 && !reason.test(body.detail)) faults.push(`${status} ${JSON.stringify(body)}`);
      }
    }
    t.same(faults.slice(0, 5), [], 'such as a database that is called unavailable');
    t.equal(counts.ran + counts.stopped, INSTALLATIONS / OF_ACCOUNT);
    t.ok(slowestGuard < HOOK_MS, `the slowest guard took ${Math.round(slowestGuard)} ms`);
    t.ok(slowestTool < TOOL_MS, `the slowest tool took ${Math.round(slowestTool)} ms`);
    t.same(complaints.slice(0, 5), [], 'nothing failed in the background');
    const { fleet } = fixture.supervisor;
    t.comment(
      `${INSTALLATIONS} cold plugins in ${PLACES} places: ${Math.round(took)} ms, ${JSON.stringify(counts)}, slowest guard ` +
        `${Math.round(slowestGuard)} ms, slowest tool ${Math.round(slowestTool)} ms, loop p99 ${Math.round(loop.percentile(99) / 1e6)} ms`,
    );
    await eventually(async () => fleet.countByState().running ?? 0);
    t.ok((fleet.countByState().running ?? 0) <= PLACES, JSON.stringify(fleet.countByState()));
  },
);

t.test('a plugin does not start for a caller that has left', async (t) => {
  const fixture = await startSupervisorFixture(t, { childrenMax: 2 });
  const { app, supervisor } = fixture;
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const waits = `tools.x = { description: 'x', parameters: { type: 'object' }, handler: () => new Promise(() => undefined) };`;
  const begin = async (account: string, slug: string) => {
    const path = `/sessions/${await fixture.session(account)}/tools/${slug}__x`;
    const authorization = `Bearer ${await fixture.issuer.issue(account)}`;
    const closing = new AbortController();
    const answered = fetch(`${url}${path}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: '{"arguments":{}}',
      signal: closing.signal,
    });
    return { answered, leave: () => closing.abort() };
  };
  for (const account of ['ann', 'ben']) {
    const { installationId } = await fixture.install({ account, slug: account, code: waits });
    const { answered, leave } = await begin(account, account);
    answered.catch(() => undefined);
    t.teardown(leave);
    await eventually(async () => supervisor.fleet.getPid(installationId));
  }
  const left = await fixture.install({ account: 'cleo', slug: 'left', code: TOOL });
  const staying = await fixture.install({ account: 'cleo', slug: 'staying', code: TOOL });
  const countStarting = () => supervisor.fleet.countByState().starting ?? 0;
  const first = await begin('cleo', 'left');
  await eventually(async () => countStarting() === 1);
  const second = await begin('cleo', 'staying');
  await eventually(async () => countStarting() === 2);
  first.leave();
  await t.rejects(first.answered);
  await eventually(async () => countStarting() === 1);
  // Makes room for one.
  const ann = await findOrCreateAccount(fixture.pool, 'ann');
  await supervisor.fleet.stopAccounts((accountId) => accountId === ann.id, 0);
  t.equal((await second.answered).status, 200);
  t.ok(supervisor.fleet.getPid(staying.installationId));
  t.equal(supervisor.fleet.getPid(left.installationId), null);
  t.equal(countStarting(), 0);
});
