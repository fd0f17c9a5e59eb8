/** Runs load against a cluster while faults come by a seed, and judges the invariants at the end. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { whyMissing } from '../runner/programs.ts';
import { type Random, seededRandom } from '../runner/random.ts';
import { startArrivalServer } from '../storm/arrival-server.ts';
import { Ledger } from '../storm/ledger.ts';
import { openSteppingClock } from './clock.ts';
import { type DatabaseServer, type NemesisCluster, startCluster, startOwnServer, waitUntil } from './cluster.ts';
import { type Fault, type FaultContext, selectFaults } from './faults.ts';
import {
  countRefusals,
  type Finding,
  judgeAnswers,
  judgeChannelOrder,
  judgeCounters,
  judgeDeliveries,
  judgeEnds,
  judgeEpochs,
  judgeEvents,
  judgeGuards,
  judgeReplies,
  judgeTakeovers,
  measureTakeovers,
  type Takeovers,
} from './invariants.ts';
import { type LoadRecords, runLoad } from './load.ts';
import type { Member } from './member.ts';
import type { DeliveryRow, FaultRecord } from './records.ts';
import { installWriteLedger, listWrites } from './write-ledger.ts';

const ACCOUNTS = 8;
const COUNTER_CALLERS = 2;
/** Between faults, when all is well again. Milliseconds. */
const CALM_MS = { min: 1_500, max: 6_000 };
/** This many of ten faults begin while another is under way. */
const OVERLAPPING_OF_TEN = 3;
/** Everything that was acknowledged arrives within this time after the last fault. Milliseconds. */
const ARRIVAL_MS = 120_000;

export interface NemesisOptions {
  readonly seed: number;
  readonly minutes: number;
  /** An empty folder: logs, keys and data. */
  readonly folder: string;
  /** Multiplies the time limits, for a machine that is busy with other work. */
  readonly patience: number;
  /** Names of faults; empty: all. */
  readonly only: readonly string[];
  /** Default: one PostgreSQL of its own. */
  startServer?(folder: string): Promise<DatabaseServer>;
  onProgress(line: string): void;
  /** Ends the run early. */
  readonly interrupted: AbortSignal;
}
export interface NemesisReport {
  readonly struck: readonly FaultRecord[];
  readonly takeovers: readonly Takeovers[];
  /** How often calls were refused, by what the refusal says. */
  readonly refusals: ReadonlyMap<string, number>;
  readonly findings: readonly Finding[];
}

/** @throws Error if it cannot begin, was interrupted, or no fault came. All processes have ended then, too */
export async function runNemesis(options: NemesisOptions): Promise<NemesisReport> {
  const { folder, seed, onProgress, interrupted } = options;
  const random = seededRandom(seed);
  const clock = await openSteppingClock(join(folder, 'clock'));
  const selected = selectFaults(options.only, {
    pgbouncer: whyMissing('pgbouncer'),
    clock: clock === null && 'no libfaketime: apt-get install libfaketime',
  });
  const records = await openRecords(folder);
  const arrivals = await startArrivalServer({
    arrive: (entry) => (entry.queue.startsWith('events ') ? records.events : records.webhooks).arrive(entry),
  });
  const server = await (options.startServer ?? startOwnServer)(join(folder, 'postgres'));
  const endings: (() => unknown)[] = [() => server.stop(), arrivals.close];
  try {
    const cluster = await startCluster({ folder, server, models: arrivals.models, clockEnv: clock?.env ?? {} });
    endings.push(cluster.stop);
    interrupted.throwIfAborted();
    // A fault under way still ends by itself: a server that it starts later would outlive the run.
    const closeMembers = (): void => void Promise.all(cluster.members.map((member) => member.close()));
    interrupted.addEventListener('abort', closeMembers, { once: true });
    await installWriteLedger(cluster.pool);
    onProgress(`two APIs, three supervisors, ${cluster.pooler ? 'pgbouncer, ' : ''}one database. Logs: ${folder}`);
    const over = new AbortController();
    const names = Array.from({ length: ACCOUNTS }, (_, index) => `account-${index}`);
    const { supervisors, apis } = cluster;
    const accounts = await Promise.all(names.map(cluster.addAccount));
    const loads = accounts.map((account, index) => {
      const shared = { supervisors, apis, records, over: over.signal, counterCallers: COUNTER_CALLERS };
      return runLoad({ ...shared, account, random: seededRandom(seed + index + 1) });
    });
    const storm = new Storm({ cluster, random, clockFile: clock?.file ?? null }, selected, options);
    await storm.run();
    over.abort();
    interrupted.throwIfAborted();
    await Promise.all(loads);
    if (storm.struck.length === 0) throw new Error(`No fault came in ${options.minutes} minutes. Give more --minutes.`);
    await settle(cluster.pool, records, interrupted);
    // What is still under way then is not lost.
    interrupted.throwIfAborted();
    return await judgeAll(cluster, records, storm.struck, options);
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

async function openRecords(folder: string): Promise<LoadRecords> {
  const folders = ['webhooks', 'events'].map((name) => join(folder, name));
  for (const path of folders) await mkdir(path, { recursive: true });
  const [webhooks, events] = folders.map((path) => new Ledger(path)) as [Ledger, Ledger];
  return { webhooks, events, counters: [], guards: [], accepted: [] };
}

/** Brings faults about one after the other, some of them two at once. */
class Storm {
  readonly struck: FaultRecord[] = [];
  readonly #context: FaultContext;
  readonly #faults: readonly Fault[];
  readonly #options: NemesisOptions;
  readonly #busy = new Set<string>();
  readonly #startedAt = performance.now();
  /** How often faults began, so that each knows whether another did meanwhile. */
  #begun = 0;
  #underWay = 0;

  constructor(context: FaultContext, selected: readonly Fault[], options: NemesisOptions) {
    this.#context = context;
    this.#faults = selected;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { random } = this.#context;
    const { interrupted } = this.#options;
    const endsAt = this.#startedAt + this.#options.minutes * 60_000;
    const queue: Fault[] = [];
    const pause = (ms: number): Promise<void> => sleep(ms, undefined, { signal: interrupted }).catch(() => undefined);
    while (performance.now() < endsAt && !interrupted.aborted) {
      await pause(random.integer(CALM_MS.min, CALM_MS.max));
      // Each fault once before any comes again.
      if (queue.length === 0) queue.push(...shuffle(this.#faults, random));
      const first = this.#begin(queue.pop());
      const isOverlapped = random.integer(0, 10) < OVERLAPPING_OF_TEN;
      if (isOverlapped) await pause(random.integer(0, CALM_MS.max));
      await Promise.all([first, isOverlapped ? this.#begin(queue.pop()) : undefined]);
      if (!interrupted.aborted) await this.#waitForCalm();
    }
  }

  /** @param fault none where the faults are used up */
  async #begin(fault: Fault | undefined): Promise<void> {
    if (this.#options.interrupted.aborted) return;
    const { cluster, random } = this.#context;
    const candidates = cluster.members.filter(({ kind, name }) => kind === fault?.victim && !this.#busy.has(name));
    const isOfMember = fault?.victim === 'api' || fault?.victim === 'supervisor';
    if (fault === undefined || (isOfMember && candidates.length === 0) || this.#busy.has(fault.victim)) return;
    const member = isOfMember ? random.pick(candidates) : (cluster.members[0] as Member);
    const victim = isOfMember ? member.name : fault.victim;
    const owned = await readOwned(cluster, member);
    const isolated = fault.listIsolated?.(this.#context, member).map(({ name }) => name) ?? [];
    this.#busy.add(victim);
    this.#begun += 1;
    this.#underWay += 1;
    const isFirst = this.#underWay === 1;
    const number = this.#begun;
    const at = Date.now();
    this.#say(`${fault.name}: ${victim}`);
    await fault.run(this.#context, member);
    const isAlone = isFirst && this.#begun === number;
    const { name, kind } = fault;
    this.struck.push({ name, victim, kind, at, endedAt: Date.now(), isolated, isAlone, owned });
    this.#underWay -= 1;
    this.#busy.delete(victim);
    this.#say(`${fault.name}: ${victim} healed after ${((Date.now() - at) / 1_000).toFixed(1)} s`);
  }

  /** Every shard has an owner, and every supervisor some. */
  async #waitForCalm(): Promise<void> {
    const { pool, supervisors } = this.#context.cluster;
    const { interrupted } = this.#options;
    await waitUntil(async () => {
      if (interrupted.aborted) return true;
      const { rows } = await pool.query(
        `SELECT s.owner FROM shards s JOIN supervisors v ON v.id = s.owner AND v.expires_at > now() GROUP BY s.owner`,
      );
      const free = await pool.query('SELECT 1 FROM shards WHERE owner IS NULL LIMIT 1');
      return rows.length === supervisors.length && free.rows.length === 0;
    }).catch(() => this.#say('the shards are not spread over all supervisors after a minute'));
  }

  #say(line: string): void {
    const seconds = ((performance.now() - this.#startedAt) / 1_000).toFixed(1);
    this.#options.onProgress(`${seconds.padStart(7)} s  ${line}`);
  }
}

function shuffle<T>(items: readonly T[], random: Random): T[] {
  const left = [...items];
  return Array.from({ length: items.length }, () => left.splice(random.integer(0, left.length), 1)[0] as T);
}

/** The epochs of the shards that a supervisor owns now. Its row names its process. */
async function readOwned({ pool }: NemesisCluster, { pid }: Member): Promise<ReadonlyMap<number, number>> {
  const { rows } = await pool
    .query<{ id: number; epoch: number }>(
      `SELECT s.id, s.epoch FROM shards s JOIN supervisors v ON v.id = s.owner WHERE split_part(v.process, ' ', 3) = $1`,
      [String(pid)],
    )
    .catch(() => ({ rows: [] }));
  return new Map(rows.map(({ id, epoch }) => [id, epoch]));
}

/** Waits until nothing that was acknowledged is under way any more, within bounds. */
async function settle(pool: Pool, { webhooks, events }: LoadRecords, interrupted: AbortSignal): Promise<void> {
  const pending = `SELECT 1 FROM deliveries WHERE state = 'pending' UNION ALL SELECT 1 FROM events WHERE state = 'pending' LIMIT 1`;
  await waitUntil(async () => {
    if (interrupted.aborted) return true;
    if ((await pool.query(pending)).rows.length > 0) return false;
    return webhooks.verdict().lost.length === 0 && events.verdict().lost.length === 0;
  }, ARRIVAL_MS).catch(() => undefined);
}

/** Keeps what was judged beside the ledgers, a line each, so that a violation can be traced when all has ended. */
async function keepRecords(folder: string, records: Readonly<Record<string, readonly object[]>>): Promise<void> {
  for (const [name, lines] of Object.entries(records)) {
    const text = lines.map((line) =>
      JSON.stringify(line, (_key, value) => (value instanceof Map ? [...value] : value)),
    );
    await writeFile(join(folder, `${name}.ledger`), `${text.join('\n')}\n`);
  }
}

async function judgeAll(
  { pool, members, unexpectedEnds }: NemesisCluster,
  { webhooks, events, counters, guards, accepted }: LoadRecords,
  struck: readonly FaultRecord[],
  { folder, patience }: NemesisOptions,
): Promise<NemesisReport> {
  const writes = await listWrites(pool);
  await keepRecords(folder, { calls: counters, writes, faults: struck });
  const { rows } = await pool.query<DeliveryRow>('SELECT id, state, last_error AS cause FROM deliveries');
  const arrived = webhooks.arrivals();
  const takeovers = measureTakeovers(struck, writes, counters);
  const findings = [
    judgeCounters(counters, writes),
    judgeEpochs(writes),
    judgeDeliveries(accepted, new Set(arrived.map(({ id }) => id)), rows),
    judgeEvents(events.acknowledged(), events.arrivals()),
    judgeChannelOrder({ acknowledged: webhooks.acknowledged(), arrived }, accepted, struck),
    judgeAnswers(counters),
    ...judgeTakeovers(takeovers, patience),
    judgeGuards(guards),
    judgeReplies(counters, patience),
    judgeEnds(members.length, unexpectedEnds),
  ];
  return { struck, takeovers, refusals: countRefusals(counters), findings };
}
