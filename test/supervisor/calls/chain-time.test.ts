/** The time limits of a chain, with a clock that the test moves: the budget of each link, and 15 s for all links. */
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { type HookName, hooks, PAUSED_MAX_MS } from '../../../sdk/contract/protocol.ts';
import type { HookRow } from '../../../sdk/contract/rows.ts';
import type { LinkResult } from '../../../supervisor/calls/chain.ts';
import { runChain } from '../../../supervisor/calls/chain-runner.ts';
import type { PluginCall } from '../../../supervisor/calls/plugin-call.ts';
import { indexAccountPlugins } from '../../../supervisor/children/account-plugins-cache.ts';
import { unrecorded } from './unrecorded.ts';

const START = Date.UTC(2026, 0, 5, 9);
const LINKS = 6;
const STATE = { status: 'ready', blockedReason: null, settings: {} };

/** An account whose plugins all have this hook. */
const accountWith = (hook: HookName, count: number, required = false) =>
  indexAccountPlugins(
    Array.from({ length: count }, (_, n) => {
      const registrations = { hooks: [hook], tools: {} };
      const ids = { installationId: `i${n}`, slug: `s${n}`, displayName: `S${n}` };
      return { ...ids, ...STATE, required, registrations } as unknown as InstalledPlugin;
    }),
  );

/**
 * Runs a chain. Each link takes as long as `takes` returns. The first one waits for a model for the last `waitedMs` of that. The host is
 * late by `lateMs` in each. Each look for the account's plugins takes `loadMs`.
 */
async function run(
  hook: HookName,
  takes: (call: PluginCall, now: number) => number,
  result: LinkResult,
  { required = false, waitedMs = 0, lateMs = 0, loadMs = 0 } = {},
) {
  const clock = { now: START };
  const calls: { readonly at: number; readonly call: PluginCall }[] = [];
  const invoker = {
    invoke: async (_plugin: InstalledPlugin, call: PluginCall) => {
      calls.push({ at: clock.now, call });
      clock.now += takes(call, clock.now);
      call.onUncounted?.({ pausedMs: calls.length === 1 ? waitedMs : 0, hostDelayMs: lateMs });
      return result;
    },
  };
  const { context } = hooks[hook].example;
  const plugins = accountWith(hook, LINKS, required);
  const now = () => clock.now;
  const deps = { invoker, ...unrecorded, clock: { now, budgetNow: now } };
  const state = await runChain(deps, {
    hook,
    loadPlugins: () => {
      clock.now += loadMs;
      return plugins;
    },
    session: null,
    trigger: 'user',
    context,
  });
  return { state, calls, tookMs: clock.now - START };
}

const LATE: LinkResult = { kind: 'timeout', message: 'late' };
const SILENT: LinkResult = { kind: 'answered', answer: undefined };
const asMoment = (ms: number): string => new Date(ms).toISOString();

for (const [name, row] of Object.entries(hooks) as [HookName, HookRow][]) {
  const wholeMs = Math.max(limits.chainBudgetMs, row.budgetMs);
  const linkCount = name === 'compaction.summarize' ? 1 : LINKS;
  const untilItsDeadline = (call: PluginCall, now: number) => call.deadlineAt - now;

  t.test(`${name}: ${row.budgetMs} ms a link, ${wholeMs} ms in all`, async (t) => {
    const { state, calls, tookMs } = await run(name, untilItsDeadline, LATE);
    const first = calls[0];
    t.equal(first?.call.deadlineAt, START + row.budgetMs, 'the first link has the budget of its hook');
    t.match(
      first?.call.context,
      { at: asMoment(START), deadlineAt: asMoment(START + row.budgetMs) },
      'its context has the times',
    );
    t.ok(tookMs <= wholeMs, 'never longer than the chain’s limit');
    if (row.onFailure === 'cancel') {
      t.equal(calls.length, 1, 'a late link cancels at once');
      t.match(state.trace, [{ outcome: 'vetoed_timeout' }]);
      return;
    }
    const expectedCalls = Math.ceil(wholeMs / row.budgetMs);
    t.equal(calls.length, Math.min(expectedCalls, linkCount), 'links with time left are called');
    t.equal(state.trace.length, linkCount, 'the trace has all links');
    for (const step of state.trace.slice(expectedCalls))
      t.match(step, { outcome: 'skipped_unavailable', reason: /earlier links used up/ });
  });

  t.test(`${name}: all quick links are called, the last one with the remaining time`, async (t) => {
    const each = Math.floor(wholeMs / linkCount);
    const { calls, state } = await run(name, () => each, SILENT);
    t.equal(calls.length, linkCount);
    for (const { at, call } of calls)
      t.equal(call.deadlineAt, Math.min(at + row.budgetMs, START + wholeMs), `called ${at - START} ms after the start`);
    t.ok(state.trace.every(({ outcome }) => outcome === 'unchanged'));
  });

  t.test(`${name}: the wait of a link for a model takes no time from the links that follow`, async (t) => {
    const waitedMs = wholeMs + 1;
    const takes = (_call: PluginCall, now: number) => (now === START ? waitedMs : 0);
    const { calls, state } = await run(name, takes, SILENT, { required: true, waitedMs });
    t.equal(calls.length, linkCount);
    t.ok(state.trace.every(({ outcome }) => outcome === 'unchanged'));
    const later = START + waitedMs;
    for (const { call } of calls.slice(1)) t.equal(call.deadlineAt, later + Math.min(row.budgetMs, wholeMs));
  });

  t.test(`${name}: of longer waits, ${PAUSED_MAX_MS} ms take no time from the links that follow`, async (t) => {
    const takes = (_call: PluginCall, now: number) => (now === START ? PAUSED_MAX_MS + wholeMs : 0);
    const { calls } = await run(name, takes, SILENT, { waitedMs: PAUSED_MAX_MS + wholeMs });
    t.equal(calls.length, 1);
  });

  t.test(`${name}: what the host is late with takes no time from the links that follow, within limits`, async (t) => {
    const each = wholeMs / 4;
    const delayed = await run(name, () => each, SILENT, { required: true, lateMs: each - 1 });
    t.ok(delayed.state.trace.every(({ outcome }) => outcome === 'unchanged'));
    t.equal(delayed.calls.length, linkCount);
    const { calls } = await run(name, () => wholeMs, SILENT, { lateMs: wholeMs });
    t.equal(calls.length, Math.min(2, linkCount), `${wholeMs} ms in all`);
  });

  t.test(`${name}: the host's look for the plugins takes no time from the links, within limits`, async (t) => {
    const loadMs = wholeMs / (linkCount + 1);
    const { calls, state } = await run(name, () => 0, SILENT, { required: true, loadMs });
    t.equal(calls.length, linkCount);
    t.equal(state.cancelled, null);
    const endless = await run(name, () => 0, SILENT, { loadMs: 3 * wholeMs });
    t.equal(endless.calls.length, 0, `more than ${wholeMs} ms in all does`);
  });

  t.test(`${name}: a slow link leaves no time to the links that follow`, async (t) => {
    const { calls, state } = await run(name, () => wholeMs + 1, SILENT);
    t.equal(calls.length, 1);
    if (linkCount === 1) return;
    const outcome = row.onFailure === 'cancel' ? 'vetoed_unavailable' : 'skipped_unavailable';
    t.equal(state.trace[1]?.outcome, outcome);
    t.equal(state.cancelled !== null, row.onFailure === 'cancel', 'a hook that fails closed cancels');
  });

  t.test(`${name}: a required link that is late cancels, whatever the hook`, async (t) => {
    const { state, calls } = await run(name, untilItsDeadline, LATE, { required: true });
    t.equal(calls.length, 1);
    t.match(state.trace, [{ slug: 's0', outcome: 'vetoed_timeout', required: true }]);
    t.match(state.cancelled, {
      by: { slug: 's0' },
      cause: 'failure',
      reason: /“S0” did not answer within .* requires it/,
    });
  });

  t.test(`${name}: a required link for which no time was left cancels`, async (t) => {
    const { state, calls } = await run(name, () => wholeMs + 1, SILENT, { required: true });
    t.equal(calls.length, 1);
    if (linkCount === 1) return t.equal(state.cancelled, null, 'the only one ran');
    t.match(state.trace, [{ outcome: 'unchanged' }, { outcome: 'vetoed_unavailable', required: true }]);
    const isOfResult = name === 'middleware.toolResult' || name === 'middleware.sshCommandOutput';
    return t.match(state.cancelled, {
      by: { slug: 's1' },
      reason: isOfResult
        ? /earlier links used up the chain’s time\. See the plugin’s log/
        : /earlier links used up the chain’s time\. Try again/,
    });
  });
}
