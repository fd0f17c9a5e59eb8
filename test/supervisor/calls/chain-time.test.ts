/** Time in a chain, by a clock that the test moves: every row's budget for a link, and 15 s for all of them. */
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { type HookName, hooks } from '../../../sdk/contract/protocol.ts';
import type { HookRow } from '../../../sdk/contract/rows.ts';
import type { LinkResult } from '../../../supervisor/calls/chain.ts';
import { runChain } from '../../../supervisor/calls/chain-runner.ts';
import type { PluginCall } from '../../../supervisor/calls/plugin-call.ts';

const START = Date.UTC(2026, 0, 5, 9);
const LINKS = 6;
const none = {
  system: () => undefined,
  sometimes: () => undefined,
  linkRan: () => undefined,
  chainRan: () => undefined,
} as never;
const links = Array.from(
  { length: LINKS },
  (_, n) =>
    ({ installationId: `i${n}`, slug: `s${n}`, blockedReason: null, settings: {} }) as unknown as InstalledPlugin,
);

/** Every link takes as long as `takes` says of its call. */
async function run(hook: HookName, takes: (call: PluginCall, now: number) => number, result: LinkResult) {
  const clock = { now: START };
  const calls: { readonly at: number; readonly call: PluginCall }[] = [];
  const invoker = {
    invoke: async (_plugin: InstalledPlugin, call: PluginCall) => {
      calls.push({ at: clock.now, call });
      clock.now += takes(call, clock.now);
      return result;
    },
  };
  const { context } = hooks[hook].example;
  const deps = { invoker, logs: none, metrics: none, now: () => clock.now };
  const state = await runChain(deps, { hook, links, idle: [], session: null, trigger: 'user', context });
  return { state, calls, tookMs: clock.now - START };
}

const LATE: LinkResult = { kind: 'timeout', message: 'late' };
const SILENT: LinkResult = { kind: 'answered', answer: undefined };
const asMoment = (ms: number): string => new Date(ms).toISOString();

for (const [name, row] of Object.entries(hooks) as [HookName, HookRow][]) {
  const wholeMs = Math.max(limits.chainBudgetMs, row.budgetMs);
  const untilItsDeadline = (call: PluginCall, now: number) => call.deadlineAt - now;

  t.test(`${name}: ${row.budgetMs} ms a link, ${wholeMs} ms in all`, async (t) => {
    const { state, calls, tookMs } = await run(name, untilItsDeadline, LATE);
    const first = calls[0];
    t.equal(first?.call.deadlineAt, START + row.budgetMs, 'the first has its row’s budget');
    t.match(first?.call.context, { at: asMoment(START), deadlineAt: asMoment(START + row.budgetMs) }, 'and is told');
    t.ok(tookMs <= wholeMs, 'it never takes longer than the chain may');
    if (row.onFailure === 'cancel') {
      t.equal(calls.length, 1, 'who is late stops it at once');
      t.match(state.trace, [{ outcome: 'vetoed_timeout' }]);
      return;
    }
    const asked = Math.ceil(wholeMs / row.budgetMs);
    t.equal(calls.length, Math.min(asked, LINKS), 'those for whom time was left are asked');
    t.equal(state.trace.length, LINKS, 'the trace tells of all');
    for (const step of state.trace.slice(asked))
      t.match(step, { outcome: 'skipped_unavailable', reason: /earlier links used up/ });
  });

  t.test(`${name}: quick links are all asked, the last one for what is left`, async (t) => {
    const each = Math.floor(wholeMs / LINKS);
    const { calls, state } = await run(name, () => each, SILENT);
    t.equal(calls.length, LINKS);
    for (const { at, call } of calls)
      t.equal(call.deadlineAt, Math.min(at + row.budgetMs, START + wholeMs), `asked ${at - START} ms after the start`);
    t.ok(state.trace.every(({ outcome }) => outcome === 'unchanged'));
  });

  t.test(`${name}: a link that was waiting for a model does not make the chain longer`, async (t) => {
    const { calls, state } = await run(name, () => wholeMs + 1, SILENT);
    t.equal(calls.length, 1);
    const outcome = row.onFailure === 'cancel' ? 'vetoed_unavailable' : 'skipped_unavailable';
    t.equal(state.trace[1]?.outcome, outcome);
    t.equal(state.cancelled !== null, row.onFailure === 'cancel', 'who guards and could not be asked stops it');
  });
}
