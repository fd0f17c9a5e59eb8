/** The invariants of the nemesis find what breaks them; with `--soak`, the nemesis itself runs for some minutes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { amount, seed } from '../runner/soak.ts';
import type { Entry } from '../storm/ledger.ts';
import { selectFaults } from './faults.ts';
import {
  type Finding,
  judgeAnswers,
  judgeChannelOrder,
  judgeCounters,
  judgeDeliveries,
  judgeEpochs,
  judgeEvents,
  judgeGuards,
  judgeReplies,
  judgeTakeovers,
  measureTakeovers,
} from './invariants.ts';
import { startPatroniServer, whyNoPatroni } from './patroni-server.ts';
import { formatReport, formatTimeline } from './print-report.ts';
import type { CounterCall, CounterWrite, FaultRecord } from './records.ts';
import { type NemesisOptions, runNemesis } from './run-nemesis.ts';

const MINUTES = 3;
/** Under Patroni: what a failover of the database may meet. */
const BESIDE_FAILOVERS = [
  'PostgreSQL killed',
  'kill -9 of a supervisor',
  'kill -9 of an API',
  'link of a supervisor cut for a moment',
  'link of two supervisors cut',
  'some connections ended',
];
/** The whole cluster shares this machine: the limits of the nemesis are longer by this factor. */
const PATIENCE = 3;

const call = (count: number | null, startedAt: number, endedAt: number): CounterCall => ({
  account: 'ann',
  startedAt,
  endedAt,
  count,
  reply: { status: count === null ? 503 : 200, hasRetryAfter: count === null, message: '' },
});
const write = (count: number, epoch: number | null, at = 0): CounterWrite => ({
  account: 'ann',
  shard: 7,
  epoch,
  count,
  at,
});
const entry = (place: number): Entry => ({ id: `d${place}`, queue: 'a', place, at: place });
const fault = (kind: FaultRecord['kind'], victim: string): FaultRecord => ({
  name: kind,
  victim,
  kind,
  at: 100,
  endedAt: 200,
  isolated: [],
  isAlone: true,
  owned: new Map([[7, 1]]),
});
const isKept = (finding: Finding | undefined): boolean => finding?.isKept === true;

t.test('counters: an answer that is not kept, is given twice, or was run twice', async (t) => {
  const writes = [write(1, 1), write(2, 1)];
  t.ok(isKept(judgeCounters([call(1, 0, 1), call(null, 1, 2)], writes)));
  t.notOk(isKept(judgeCounters([call(1, 0, 1), call(3, 1, 2)], writes)));
  t.notOk(isKept(judgeCounters([call(1, 0, 1), call(1, 1, 2)], writes)));
  t.notOk(isKept(judgeCounters([call(1, 0, 1)], writes)));
});

t.test('epochs: an older one that writes, a lost increment, a write without a fence', async (t) => {
  t.ok(isKept(judgeEpochs([write(1, 1), write(2, 2)])));
  t.notOk(isKept(judgeEpochs([write(1, 2), write(2, 1)])));
  t.notOk(isKept(judgeEpochs([write(1, 1), write(1, 1)])));
  t.notOk(isKept(judgeEpochs([write(1, null)])));
});

t.test('deliveries and events: what is missing, waits, or is dead without a cause', async (t) => {
  const accepted = [{ id: 'd1', acceptedBy: 'api-1', at: 0 }];
  const judged = (state: string, cause: string | null, arrived: string[]) =>
    isKept(judgeDeliveries(accepted, new Set(arrived), [{ id: 'd1', state, cause }]));
  t.ok(judged('delivered', null, ['d1']));
  t.ok(judged('dead', 'it failed', []));
  t.notOk(judged('dead', null, ['d1']));
  t.notOk(judged('pending', null, []));
  t.notOk(judged('delivered', null, []));
  t.notOk(isKept(judgeDeliveries(accepted, new Set(), [])));
  t.ok(isKept(judgeEvents([entry(1), entry(2)], [entry(1), entry(2), entry(1)])));
  t.notOk(isKept(judgeEvents([entry(1), entry(2)], [entry(2), entry(1)])));
  t.notOk(isKept(judgeEvents([entry(1)], [])));
});

t.test('order: a request that was overtaken, except beside an API that alone missed the database', async (t) => {
  const records = { acknowledged: [entry(1), entry(2)], arrived: [entry(2), entry(1)] };
  const accepted = [{ id: 'd1', acceptedBy: 'api-1', at: 150 }];
  t.notOk(isKept(judgeChannelOrder(records, accepted, [])));
  const pgbouncer = fault('other', 'pgbouncer');
  t.notOk(isKept(judgeChannelOrder(records, accepted, [fault('other', 'api-1')])));
  t.notOk(isKept(judgeChannelOrder(records, accepted, [{ ...pgbouncer, isolated: ['api-2'] }])));
  t.ok(isKept(judgeChannelOrder(records, accepted, [{ ...pgbouncer, isolated: ['api-1'] }])));
  t.ok(isKept(judgeChannelOrder({ ...records, acknowledged: [entry(2)] }, accepted, [])), 'no answer, no order');
});

t.test('answers: one that is older than what was answered before it began', async (t) => {
  t.ok(isKept(judgeAnswers([call(2, 0, 10), call(1, 5, 12)])), 'at the same time');
  t.notOk(isKept(judgeAnswers([call(2, 0, 10), call(1, 11, 12)])));
});

t.test('recovery: work that is blocked for too long, or for ever', async (t) => {
  const [vanished, drained] = [fault('vanish', 'supervisor-1'), fault('drain', 'supervisor-1')];
  const writes = [write(1, 1, 50), write(2, 1, 140), write(3, 2, 150)];
  const judgeAfter = (one: FaultRecord, ms: number) => {
    const calls = [call(1, 0, 50), call(2, 130, 145), call(null, 145, 160), call(3, 160, ms)];
    return judgeTakeovers(measureTakeovers([one], writes, calls), 1).every(isKept);
  };
  t.ok(judgeAfter(vanished, 15_100), 'from the fault');
  t.notOk(judgeAfter(vanished, 15_101));
  t.ok(judgeAfter(drained, 2_145), 'from the last answer of the old owner');
  t.notOk(judgeAfter(drained, 2_146));
  const isNextEpoch = judgeTakeovers(measureTakeovers([vanished], writes.slice(0, 2), []), 1).every(isKept);
  t.notOk(isNextEpoch, 'nobody took over');
  t.same(measureTakeovers([{ ...vanished, owned: new Map() }], writes, [])[0]?.pauses, [], 'of other accounts');
  t.same(measureTakeovers([{ ...vanished, isAlone: false }], writes, []), [], 'beside another fault');
});

t.test('replies: a call that waits too long, or is refused without a time to try again', async (t) => {
  const refused = { status: 503, hasRetryAfter: true, message: 'it does not answer' };
  const judged = (ms: number, reply: CounterCall['reply']) =>
    isKept(judgeReplies([{ ...call(null, 0, ms), reply }], 1));
  t.ok(judged(20_000, refused));
  t.notOk(judged(20_001, refused));
  t.notOk(judged(1, { ...refused, hasRetryAfter: false }));
  t.ok(judged(1, { status: 502, hasRetryAfter: false, message: 'it may have run' }));
  t.notOk(judged(60_000, { status: 0, hasRetryAfter: false, message: 'no answer in time' }));
  t.ok(judged(60_000, null), 'the process that was asked ended');
});

t.test('guards: a message that got through without them', async (t) => {
  const judged = (isForbidden: boolean, action: 'continue' | 'cancel' | null, isMarked: boolean) =>
    isKept(judgeGuards([{ isForbidden, action, isMarked }]));
  t.ok(judged(true, 'cancel', false));
  t.ok(judged(false, null, false));
  t.ok(judged(false, 'continue', true));
  t.notOk(judged(true, 'continue', true));
  t.notOk(judged(false, 'continue', false));
});

t.test('a fault that this machine cannot have is left out, or refused if it was named', async (t) => {
  const there = { pgbouncer: false, clock: false } as const;
  const named = ['kill -9 of pgbouncer', 'drain of an API'];
  const listNames = (...args: Parameters<typeof selectFaults>) => selectFaults(...args).map(({ name }) => name);
  t.same(listNames(named, there).toSorted(), named.toSorted());
  const missing = { ...there, pgbouncer: 'no pgbouncer' };
  t.equal(listNames([], missing).length, listNames([], there).length - 1);
  t.throws(() => selectFaults(named, missing), { message: /“kill -9 of pgbouncer”: no pgbouncer/ });
});

t.test('what had nothing to judge is not called ok', async (t) => {
  const findings = [judgeReplies([call(1, 0, 1)], 1), ...judgeTakeovers([], 1)];
  const table = formatReport({ struck: [], takeovers: [], refusals: new Map(), findings });
  t.match(table, /\n {2}ok {4}\(h\)/);
  t.match(table, /\n {2}none {2}\(f\) runs again after a drain.* 0 moves/);
});

async function holdThroughFaults(
  t: Test,
  options: Pick<NemesisOptions, 'only'> & Partial<Pick<NemesisOptions, 'startServer'>>,
): Promise<void> {
  const folder = await temporaryFolder(t);
  const onProgress = (line: string): void => void t.comment(line);
  const { signal: interrupted } = new AbortController();
  const given = { seed, minutes: MINUTES, patience: PATIENCE, folder, onProgress, interrupted };
  const report = await runNemesis({ ...given, ...options });
  t.comment(formatReport(report));
  // A failed assertion shows what happened when: the folder with the logs is removed.
  const timeline = formatTimeline(report.struck);
  for (const finding of report.findings) t.same(finding.violations, [], finding.invariant, { timeline });
}

const skip = amount<string | false>({ quick: 'with --soak, or npm run nemesis', soak: false });
t.test('two APIs and three supervisors keep every invariant while faults come', { skip }, (t) =>
  holdThroughFaults(t, { only: [] }),
);

t.test('Ctrl-C ends every process and removes the folder', { skip }, async (t) => {
  // Its own process group: a terminal sends the signal to all processes of it.
  const program = fileURLToPath(new URL('./nemesis.ts', import.meta.url));
  const child = spawn(process.execPath, [program], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  let folder = '';
  for await (const line of createInterface({ input: child.stdout })) {
    folder = / Logs: (.*)$/.exec(line)?.[1] ?? folder;
    if (/ s {2}\S/.test(line)) break;
  }
  const [postgres] = readFileSync(join(folder, 'postgres/postgres/postmaster.pid'), 'utf8').split('\n');
  // npm repeats the signal.
  for (let times = 0; times < 2; times += 1) process.kill(-Number(child.pid), 'SIGINT');
  t.same(await ended, [130, null]);
  t.notOk(existsSync(folder), 'the folder is gone');
  t.throws(() => process.kill(Number(postgres), 0), { code: 'ESRCH' }, 'PostgreSQL has ended');
  const isOver = (): boolean => {
    try {
      return !process.kill(-Number(child.pid), 0);
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'ESRCH';
    }
  };
  // The helpers that start jails end by themselves, a moment after their supervisors.
  t.ok(await eventually(isOver), 'its processes have ended');
});

const skipFailover = amount<string | false>({ quick: 'with --soak, or npm run nemesis', soak: whyNoPatroni() });
t.test('the same while the primary of two PostgreSQL servers is killed', { skip: skipFailover }, (t) =>
  holdThroughFaults(t, { only: BESIDE_FAILOVERS, startServer: startPatroniServer }),
);
