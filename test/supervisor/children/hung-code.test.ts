/** An endless loop anywhere is killed at its deadline with its process, and other plugins keep running. */

import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import type { Child } from '../../../supervisor/children/child.ts';
import { introspect } from '../../../supervisor/children/introspect.ts';
import { waitWithoutProcessor } from '../../fixtures/late-hang.ts';
import { registerHooks } from '../../fixtures/registrations.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { isAlive, startSupervisorFixture } from '../supervisor-fixture.ts';
import { groupFile } from './control-group.ts';

// Most of them wait for a deadline.
t.jobs = 4;
/** A version that hangs while it loads keeps a core busy until it is killed. Milliseconds. */
const LOAD_WITHIN_MS = 1_000;
const shared = await startSupervisorFixture(t, { loadWithinMs: LOAD_WITHIN_MS });

/** By how much a deadline may be exceeded on a busy machine: without a deadline these calls would never end. Milliseconds. */
const SLACK_MS = 10_000;
const SPIN = 'for (;;) {}';
/** Hangs at the deadline of a hook, and leaves the processor to other tests before. */
const SPIN_LATE = `${waitWithoutProcessor(2_200)} ${SPIN}`;
const context = { systemPrompt: 'a', model: 'm' };

t.test('in a hook: the chain continues, the process has ended, and the next call works', async (t) => {
  const fixture = shared.withNewAccount();
  const hung = await fixture.install({
    slug: 'hung',
    code: `middleware.systemPrompt = async (ctx) => { if (ctx.systemPrompt === 'hang') { ${SPIN_LATE} } return ctx.systemPrompt + ' fine'; };`,
  });
  await fixture.install({ slug: 'other', code: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + " other";' });
  const path = `/sessions/${await fixture.session()}/hooks/systemPrompt`;
  await fixture.call('POST', path, { context });
  const pid = fixture.supervisor.fleet.getPid(hung.installationId) ?? 0;
  t.ok(await isAlive(pid));
  const started = performance.now();
  const answer = await fixture.call('POST', path, { context: { ...context, systemPrompt: 'hang' } });
  const took = performance.now() - started;
  t.equal(answer.body.context.systemPrompt, 'hang other');
  t.match(answer.body.trace, [{ outcome: 'skipped_timeout' }, { outcome: 'changed' }]);
  t.ok(took >= 2_900 && took < 3_000 + SLACK_MS, `took ${took} ms`);
  // On a busy machine the old process may end a moment later, and the new one take longer than a hook's budget.
  const next = await eventually(async () => {
    const { body } = await fixture.call('POST', path, { context });
    return body.trace[0].outcome === 'changed' && body;
  });
  t.equal(next.context.systemPrompt, 'a fine other');
  t.notOk(await isAlive(pid), 'the process is gone');
  await fixture.supervisor.logs.flush();
  const lines = await fixture.pool.query(`SELECT message FROM plugin_logs WHERE installation_id = $1`, [
    hung.installationId,
  ]);
  t.match(lines.rows.map((row) => row.message).join('\n'), /took longer than its \d+ ms/);
});

t.test('in a hook that only waits: the call answers, the process stays', async (t) => {
  const fixture = shared.withNewAccount();
  const slow = await fixture.install({
    slug: 'slow',
    code: `middleware.systemPrompt = async (ctx) => {
      if (ctx.systemPrompt === 'wait') await new Promise(() => {});
      return ctx.systemPrompt + ' fine';
    };`,
  });
  const path = `/sessions/${await fixture.session()}/hooks/systemPrompt`;
  await fixture.call('POST', path, { context });
  const pid = fixture.supervisor.fleet.getPid(slow.installationId);
  const answer = await fixture.call('POST', path, { context: { ...context, systemPrompt: 'wait' } });
  t.match(answer.body.trace, [{ outcome: 'skipped_timeout' }]);
  const next = await fixture.call('POST', path, { context });
  t.equal(next.body.context.systemPrompt, 'a fine');
  t.equal(fixture.supervisor.fleet.getPid(slow.installationId), pid, 'the same process');
});

t.test('in a tool: the call answers at its deadline, and the next one works', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'looper',
    code: `tools.spin = { description: 'spins', parameters: { type: 'object' }, handler: (args) => { if (args.spin) ${SPIN} return 'ok'; } };`,
  });
  const path = `/sessions/${await fixture.session()}/tools/looper__spin`;
  const ok = { content: [{ type: 'text', text: 'ok' }], isError: false };
  t.same((await fixture.call('POST', path, { arguments: {} })).body, ok);
  const pid = fixture.supervisor.fleet.getPid(made.installationId) ?? 0;
  const [plugin] = (await fixture.supervisor.pluginsCache.get(made.accountId)).plugins;
  // A shorter deadline than a tool's 60 s tests the same behaviour.
  const started = performance.now();
  const result = await fixture.supervisor.fleet.invoke(plugin as InstalledPlugin, {
    target: { kind: 'tools', name: 'spin' },
    invocationId: 'i1',
    session: null,
    deadlineAt: Date.now() + 1_000,
    context: { arguments: { spin: true } },
  });
  t.match(result, { kind: 'timeout', message: /tools\.spin took longer than its \d+ ms/ });
  t.ok(performance.now() - started < 1_000 + SLACK_MS);
  await eventually(async () => !(await isAlive(pid)));
  t.same((await fixture.call('POST', path, { arguments: {} })).body, ok);
});

t.test('at load: the call answers within the load budget, and the others of the chain run', async (t) => {
  const fixture = shared.withNewAccount();
  const registrations = registerHooks('middleware.systemPrompt');
  const stuck = await fixture.install({ slug: 'stuck', code: SPIN, registrations });
  await fixture.install({
    slug: 'other-at-load',
    code: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + " other";',
  });
  const path = `/sessions/${await fixture.session()}/hooks/systemPrompt`;
  const started = performance.now();
  const answer = await fixture.call('POST', path, { context });
  t.ok(performance.now() - started < LOAD_WITHIN_MS + SLACK_MS);
  t.match(answer.body, {
    context: { systemPrompt: 'a other' },
    trace: [{ outcome: 'skipped_unavailable' }, { outcome: 'changed' }],
  });
  await eventually(async () => {
    const { rows } = await fixture.pool.query('SELECT * FROM installation_runtime WHERE installation_id = $1', [
      stuck.installationId,
    ]);
    return rows[0]?.last_exit && /loading took longer/.test(rows[0].last_exit.reason);
  });
  t.pass('the reason is kept');
});

soakTest(t, 'a child that does not load a package ends at the budget of a load', async (t) => {
  // A stopped process uses no processor for as long as an endless loop would.
  const stop = (child: Child) => void child.ready.then(() => process.kill(child.pid, 'SIGSTOP'));
  await t.rejects(introspect(shared.sandbox.jail, SPIN, 'index.js', { onStart: stop }), {
    kind: 'timeout',
    message: `loading took longer than its ${limits.loadBudgetMs} ms: the top-level code did not end`,
  });
});

soakTest(
  t,
  'in a draft: soon it runs only while nothing else wants to, and the author’s next draft does not',
  async (t) => {
    const { limiter, jail } = shared.sandbox;
    if (limiter === 'rlimit') return;
    const isIdle = ({ pid }: Child) => groupFile(pid, limiter === 'cgroup1' ? 'cpu' : '', 'cpu.idle') === '1';
    const load = async (id: string, code: string, check: (child: Child) => Promise<unknown>) => {
      const checked = Promise.withResolvers<unknown>();
      const schedule = (child: Child) => {
        shared.supervisor.fleet.scheduleDraft(child, { versionId: id, accountId: 'author' });
        child.ready.then(() => check(child)).then(checked.resolve, checked.reject);
      };
      const loaded = introspect(jail, code, 'index.js', { onStart: schedule });
      await Promise.all([checked.promise, loaded.catch(() => undefined)]);
    };
    await load('first', SPIN, async (child) => {
      await eventually(async () => isIdle(child));
      await child.kill('the test has seen it');
    });
    await load('second', '', async (child) => t.notOk(isIdle(child)));
  },
);
