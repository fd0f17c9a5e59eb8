/** The invariants of several supervisors and APIs on one database, each judged from the records of a run. Pure. */
import { type Entry, judge } from '../storm/ledger.ts';
import type { Accepted, CounterCall, CounterWrite, DeliveryRow, FaultKind, FaultRecord, GuardCall } from './records.ts';

/** Work without an owner runs again within this time after a machine vanished. Milliseconds. */
const FAILOVER_MS = 15_000;
/** Work without an owner runs again within this time after a drain. Milliseconds. */
const DRAIN_MS = 2_000;
/** A call waits no longer: for an owner, and then for its plugin. Milliseconds. */
const ANSWERED_MS = 20_000;
/** An API takes so long after an outage to store what waits on its disk. Milliseconds. */
const SPOOL_MS = 35_000;
/** Violations named for each invariant. */
const NAMED_MAX = 5;

export interface Finding {
  readonly invariant: string;
  readonly isKept: boolean;
  /** Whether the run had anything to judge. */
  readonly isJudged: boolean;
  /** The counts. */
  readonly figures: string;
  readonly violations: readonly string[];
}

/** @param judged how many records were judged */
const report = (invariant: string, figures: string, violations: readonly string[], judged: number): Finding => ({
  invariant,
  isKept: violations.length === 0,
  isJudged: judged > 0,
  figures: violations.length === 0 ? figures : `${figures}, ${violations.length} violations`,
  violations: violations.slice(0, NAMED_MAX),
});

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

/** Every number that was answered is stored, once, and no call without an answer was run twice. */
export function judgeCounters(calls: readonly CounterCall[], writes: readonly CounterWrite[]): Finding {
  const violations: string[] = [];
  const written = groupBy(writes, ({ account }) => account);
  for (const [account, own] of groupBy(calls, (call) => call.account)) {
    const stored = new Set((written.get(account) ?? []).map(({ count }) => count));
    const answered = new Set<number>();
    let unanswered = 0;
    for (const { count } of own) {
      if (count === null) unanswered += 1;
      else if (answered.has(count)) violations.push(`${account}: ${count} was answered twice`);
      else answered.add(count);
    }
    for (const count of answered)
      if (!stored.has(count)) violations.push(`${account}: ${count} was answered, not kept`);
    const extra = (written.get(account)?.length ?? 0) - answered.size;
    if (extra > unanswered) violations.push(`${account}: ${extra} writes without an answer, of ${unanswered} calls`);
  }
  const good = calls.filter(({ count }) => count !== null).length;
  const figures = `${writes.length} kept, ${good} answered, ${calls.length - good} calls without an answer`;
  return report('(a) counters kept = answers given', figures, violations, calls.length);
}

/** The epochs of an account's writes never go back, and each write adds one to the last. */
export function judgeEpochs(writes: readonly CounterWrite[]): Finding {
  const violations: string[] = [];
  const epochs = new Set<number | null>();
  for (const [account, own] of groupBy(writes, (write) => write.account)) {
    let last = { epoch: 0, count: 0 };
    for (const { epoch, count } of own) {
      epochs.add(epoch);
      if (epoch === null) violations.push(`${account}: ${count} was written without an epoch`);
      else if (epoch < last.epoch)
        violations.push(`${account}: epoch ${epoch} wrote ${count} after epoch ${last.epoch}`);
      if (count !== last.count + 1) violations.push(`${account}: ${count} was written after ${last.count}`);
      last = { epoch: epoch ?? last.epoch, count };
    }
  }
  const figures = `${writes.length} writes in ${epochs.size} epochs`;
  return report('(b) one epoch writes per account', figures, violations, writes.length);
}

/** Every webhook request answered with 200 was delivered, or is a dead letter that says why. */
export function judgeDeliveries(
  accepted: readonly Accepted[],
  arrivals: ReadonlySet<string>,
  rows: readonly DeliveryRow[],
): Finding {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const violations: string[] = [];
  let dead = 0;
  for (const { id, acceptedBy } of accepted) {
    const row = byId.get(id);
    const hasCause = row?.state === 'dead' && (row.cause ?? '') !== '';
    if (hasCause) dead += 1;
    else if (row === undefined) violations.push(`${id}, accepted by ${acceptedBy}, has no row`);
    else if (row.state !== 'delivered') violations.push(`${id}, accepted by ${acceptedBy}, is ${row.state}`);
    else if (!arrivals.has(id)) violations.push(`${id}, accepted by ${acceptedBy}, is delivered and never arrived`);
  }
  const figures = `${accepted.length} accepted, ${accepted.length - dead} delivered, ${dead} dead with a cause`;
  return report('(c) every 200 is delivered or dead', figures, violations, accepted.length);
}

/** Every session that was opened is told, and in order. */
export function judgeEvents(acknowledged: readonly Entry[], arrived: readonly Entry[]): Finding {
  const { lost, misplaced } = judgeOrder(acknowledged, arrived);
  const violations = [
    ...lost.map((id) => `the start of session ${id} was not told`),
    ...misplaced.map(({ queue, place }) => `event ${queue} ${place} was overtaken`),
  ];
  const figures = `${acknowledged.length} sessions`;
  return report('(c) every event arrives, in order', figures, violations, acknowledged.length);
}

/**
 * Requests to one channel, each sent after the answer to the one before, arrive in this order, whichever API accepted them.
 * Requests that an API accepted while only it lost the database may be overtaken by requests that the others stored meanwhile.
 */
export function judgeChannelOrder(
  { acknowledged, arrived }: { readonly acknowledged: readonly Entry[]; readonly arrived: readonly Entry[] },
  accepted: readonly Accepted[],
  faults: readonly FaultRecord[],
): Finding {
  const acceptedById = new Map(accepted.map((one) => [one.id, one]));
  const isAlone = ({ id }: Entry): boolean => {
    const one = acceptedById.get(id);
    return faults.some(
      ({ isolated, at, endedAt }) =>
        one !== undefined && isolated.includes(one.acceptedBy) && one.at >= at && one.at <= endedAt + SPOOL_MS,
    );
  };
  const { misplaced } = judgeOrder(acknowledged, arrived);
  const allowed = misplaced.filter(isAlone);
  const violations = misplaced
    .filter((entry) => !isAlone(entry))
    .map(({ id, queue, place }) => `${queue} ${place} (${id}, ${acceptedById.get(id)?.acceptedBy}) was overtaken`);
  const channels = new Set(acknowledged.map(({ queue }) => queue)).size;
  const figures = `${acknowledged.length} requests to ${channels} channels, ${allowed.length} overtaken beside an API without database`;
  return report('(d) order per channel over all APIs', figures, violations, acknowledged.length);
}

/** Requests that were not acknowledged have no order. */
function judgeOrder(acknowledged: readonly Entry[], arrived: readonly Entry[]) {
  const known = new Map(acknowledged.map((entry) => [entry.id, entry]));
  const { lost, misplaced } = judge(
    acknowledged,
    arrived.filter(({ id }) => known.has(id)),
  );
  const byPlace = new Map(acknowledged.map((entry) => [`${entry.queue} ${entry.place}`, entry]));
  return { lost, misplaced: misplaced.map((name) => byPlace.get(name) as Entry) };
}

/** A call that began after another was answered gets a higher number: no answer comes from an earlier state. */
export function judgeAnswers(calls: readonly CounterCall[]): Finding {
  const violations: string[] = [];
  for (const [account, own] of groupBy(calls, (call) => call.account)) {
    const answered = own.filter((call): call is CounterCall & { count: number } => call.count !== null);
    const byEnd = answered.toSorted((one, other) => one.endedAt - other.endedAt);
    let highest = 0;
    let ended = 0;
    for (const call of answered.toSorted((one, other) => one.startedAt - other.startedAt)) {
      for (let next = byEnd[ended]; next !== undefined && next.endedAt < call.startedAt; next = byEnd[ended]) {
        highest = Math.max(highest, next.count);
        ended += 1;
      }
      if (call.count <= highest) violations.push(`${account}: ${call.count} was answered after ${highest}`);
    }
  }
  return report('(e) no older answer after a newer', `${calls.length} calls in real time`, violations, calls.length);
}

/** How long the accounts of a supervisor were blocked after the faults of one name. Milliseconds, sorted. */
export interface Takeovers {
  readonly fault: string;
  readonly kind: FaultKind;
  readonly pauses: readonly number[];
}

/**
 * For each account of a supervisor that vanished or drained alone: from the fault, or after a drain from the last answer of
 * the old owner, until its plugin answers again under the next epoch. Infinite: it never did.
 */
export function measureTakeovers(
  faults: readonly FaultRecord[],
  writes: readonly CounterWrite[],
  calls: readonly CounterCall[],
): Takeovers[] {
  const callsByAccount = groupBy(calls, ({ account }) => account);
  const alone = faults.filter(({ kind, isAlone }) => isAlone && (kind === 'vanish' || kind === 'drain'));
  return [...groupBy(alone, ({ name }) => name)].map(([fault, same]) => {
    const pauses = same.flatMap((one) =>
      [...groupBy(writes, ({ account }) => account)].flatMap(
        ([account, own]) => measurePause(one, own, callsByAccount.get(account) ?? []) ?? [],
      ),
    );
    return { fault, kind: same[0]?.kind ?? 'other', pauses: pauses.sort((one, other) => one - other) };
  });
}

/** Null: the account was not concerned. */
function measurePause(
  { kind, at, owned }: FaultRecord,
  writes: readonly CounterWrite[],
  calls: readonly CounterCall[],
): number | null {
  const old = owned.get(writes[0]?.shard ?? -1);
  if (old === undefined) return null;
  const next = writes.find((write) => write.at > at && write.epoch !== old);
  if (next === undefined) return Number.POSITIVE_INFINITY;
  let [before, after] = [at, Number.POSITIVE_INFINITY];
  for (const { count, endedAt } of calls) {
    if (count === null) continue;
    if (count >= next.count) after = Math.min(after, endedAt);
    else if (kind === 'drain') before = Math.max(before, endedAt);
  }
  return Math.max(0, after - before);
}

export function readShare(sorted: readonly number[], share: number): number {
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
}

/** Work of a supervisor that vanished or drained goes on in time, for 99 of 100 accounts. */
export function judgeTakeovers(takeovers: readonly Takeovers[], patience: number): Finding[] {
  const list = (wanted: FaultKind): number[] =>
    takeovers
      .filter(({ kind }) => kind === wanted)
      .flatMap(({ pauses }) => pauses)
      .sort((one, other) => one - other);
  return [
    judgeTimes('(f) runs again after a machine vanished', list('vanish'), FAILOVER_MS * patience),
    judgeTimes('(f) runs again after a drain', list('drain'), DRAIN_MS * patience),
  ];
}

function judgeTimes(invariant: string, sorted: readonly number[], limitMs: number): Finding {
  const p99 = readShare(sorted, 0.99);
  const figures = `${sorted.length} moves, p50 ${readShare(sorted, 0.5)} ms, p99 ${p99} ms`;
  const violations = p99 > limitMs ? [`p99 ${p99} ms, more than ${limitMs} ms`] : [];
  return report(`${invariant}, p99 ≤ ${limitMs / 1_000} s`, figures, violations, sorted.length);
}

/** The status of a call that may have run: its caller decides whether to repeat it. */
const OUTCOME_UNKNOWN = 502;

/** A call that reaches a supervisor is answered in time, and one that is refused says when to try again. */
export function judgeReplies(calls: readonly CounterCall[], patience: number): Finding {
  const limitMs = ANSWERED_MS * patience;
  const violations: string[] = [];
  let refused = 0;
  let longest = 0;
  for (const { account, startedAt, endedAt, reply } of calls) {
    if (reply === null) continue;
    const ms = Math.round(endedAt - startedAt);
    longest = Math.max(longest, ms);
    if (ms > limitMs) violations.push(`${account}: ${reply.status} (${reply.message}) after ${ms} ms`);
    if (reply.status === 200) continue;
    refused += 1;
    if (reply.status !== OUTCOME_UNKNOWN && !reply.hasRetryAfter)
      violations.push(`${account}: ${reply.status} without Retry-After: ${reply.message}`);
  }
  const figures = `${refused} refused, longest ${longest} ms`;
  return report(`(h) answered or refused within ${limitMs / 1_000} s`, figures, violations, calls.length);
}

/** How often calls were refused, by what the refusal says. */
export function countRefusals(calls: readonly CounterCall[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { reply } of calls) {
    if (reply === null || reply.status === 200) continue;
    const text = `${reply.status} ${reply.message}`;
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return counts;
}

/** No forbidden message gets through, and no other one without the guard's mark. */
export function judgeGuards(calls: readonly GuardCall[]): Finding {
  const passed = calls.filter(({ isForbidden, action }) => isForbidden && action === 'continue').length;
  const skipped = calls.filter(
    ({ isForbidden, action, isMarked }) => !isForbidden && action === 'continue' && !isMarked,
  );
  const violations = [
    ...Array.from({ length: passed }, () => 'a forbidden message got through'),
    ...skipped.map(() => 'a message got through that the guard did not see'),
  ];
  const count = (wanted: GuardCall['action']): number => calls.filter(({ action }) => action === wanted).length;
  const figures = `${count('continue')} passed, ${count('cancel')} cancelled, ${count(null)} without an answer`;
  return report('(g) required guards are never skipped', figures, violations, calls.length);
}

/** No process of the product ended by itself. */
export function judgeEnds(processes: number, ends: readonly string[]): Finding {
  return report('no process ended by itself', `${ends.length} unexpected ends`, ends, processes);
}
