/** The faults: what each does to which victim, and how it ends. */
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { IS_LISTENER } from '../fixtures/listeners.ts';
import type { Random } from '../runner/random.ts';
import type { NemesisCluster } from './cluster.ts';
import type { Member, MemberKind } from './member.ts';
import type { FaultKind } from './records.ts';

export interface FaultContext {
  readonly cluster: NemesisCluster;
  readonly random: Random;
  /** File whose content shifts the clock of the last supervisor. Null: this machine has no libfaketime. */
  readonly clockFile: string | null;
}
export interface Fault {
  readonly name: string;
  readonly kind: FaultKind;
  /** Chooses whom it concerns: a process by its kind, or another part of the cluster by its name. */
  readonly victim: MemberKind | 'postgres' | 'pgbouncer' | 'clock';
  /** The processes that go on without the database, while others have it. Default: none. */
  listIsolated?(context: FaultContext, victim: Member): readonly Member[];
  /** Resolves when it is healed. */
  run(context: FaultContext, victim: Member): Promise<void>;
}

/** Longer than a lease, with its margin. Milliseconds. */
const LONGER_THAN_LEASE = { min: 11_000, max: 17_000 };
/** Longer than a supervisor waits before it refuses calls for another one that it does not reach. Milliseconds. */
const LONGER_THAN_CUT_OFF = { min: 16_000, max: 22_000 };
/** Shorter than a lease: nobody takes over. Milliseconds. */
const SHORT = { min: 1_000, max: 7_000 };
/** As long as a service manager waits. Milliseconds. */
const RESTART = { min: 200, max: 3_000 };
/** Clocks of machines may differ by a minute. Seconds. */
const CLOCK_STEP_S = 50;

const waitFor = ({ random }: FaultContext, { min, max }: { min: number; max: number }): Promise<void> =>
  sleep(random.integer(min, max));

const restartAfter = (member: Member) => async (context: FaultContext) => {
  await waitFor(context, RESTART);
  await member.start();
};

async function suspend(context: FaultContext, member: Member, times: { min: number; max: number }): Promise<void> {
  member.suspend();
  await waitFor(context, times);
  member.resume();
}

async function cut(context: FaultContext, member: Member, times: { min: number; max: number }): Promise<void> {
  member.cut();
  await waitFor(context, times);
  member.mend();
}

/** Cuts the link of a process to one of the supervisors. The links of both to the database go on. */
async function cutFromPeer(context: FaultContext, member: Member, isOneWay: boolean): Promise<void> {
  const { cluster, random } = context;
  const peer = random.pick(cluster.supervisors.filter((other) => other !== member));
  const ways = [
    [member, peer],
    [peer, member],
  ] as const;
  const cuts = isOneWay ? [random.pick(ways)] : ways;
  for (const [from, to] of cuts) cluster.network.cut(from, to);
  await waitFor(context, LONGER_THAN_CUT_OFF);
  for (const [from, to] of cuts) cluster.network.mend(from, to);
}

/** Ends connections of the cluster's processes at the server, those of a listener or some of all. */
async function endBackends({ cluster }: FaultContext, condition: string): Promise<void> {
  await cluster.pool
    .query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> 'nemesis' AND ${condition}`,
    )
    .catch(() => undefined);
}

export const faults: readonly Fault[] = [
  {
    name: 'kill -9 of a supervisor',
    kind: 'vanish',
    victim: 'supervisor',
    run: async (context, member) => {
      await member.kill();
      await restartAfter(member)(context);
    },
  },
  {
    name: 'supervisor is paused, longer than its lease',
    kind: 'vanish',
    victim: 'supervisor',
    run: (context, member) => suspend(context, member, LONGER_THAN_LEASE),
  },
  {
    name: 'supervisor is paused for a moment',
    kind: 'other',
    victim: 'supervisor',
    run: (context, member) => suspend(context, member, SHORT),
  },
  {
    name: 'link of a supervisor cut, longer than its lease',
    kind: 'vanish',
    victim: 'supervisor',
    run: (context, member) => cut(context, member, LONGER_THAN_LEASE),
  },
  {
    name: 'link of a supervisor cut for a moment',
    kind: 'other',
    victim: 'supervisor',
    run: (context, member) => cut(context, member, SHORT),
  },
  {
    name: 'link of two supervisors cut',
    kind: 'other',
    victim: 'supervisor',
    run: (context, member) => cutFromPeer(context, member, false),
  },
  {
    name: 'link of two supervisors cut one way',
    kind: 'other',
    victim: 'supervisor',
    run: (context, member) => cutFromPeer(context, member, true),
  },
  {
    name: 'link of an API and a supervisor cut',
    kind: 'other',
    victim: 'api',
    run: (context, member) => cutFromPeer(context, member, false),
  },
  {
    name: 'link of an API and a supervisor cut one way',
    kind: 'other',
    victim: 'api',
    run: (context, member) => cutFromPeer(context, member, true),
  },
  {
    name: 'drain of a supervisor',
    kind: 'drain',
    victim: 'supervisor',
    run: async (context, member) => {
      await member.drain();
      await restartAfter(member)(context);
    },
  },
  {
    name: 'kill -9 of an API',
    kind: 'other',
    victim: 'api',
    run: async (context, member) => {
      await member.kill();
      await restartAfter(member)(context);
    },
  },
  {
    name: 'API is paused',
    kind: 'other',
    victim: 'api',
    run: (context, member) => suspend(context, member, SHORT),
  },
  {
    name: 'link of an API cut',
    kind: 'other',
    victim: 'api',
    listIsolated: (_context, member) => [member],
    run: (context, member) => cut(context, member, LONGER_THAN_LEASE),
  },
  {
    name: 'drain of an API',
    kind: 'other',
    victim: 'api',
    run: async (context, member) => {
      await member.drain();
      await restartAfter(member)(context);
    },
  },
  {
    name: 'all listeners ended',
    kind: 'other',
    victim: 'postgres',
    run: (context) => endBackends(context, IS_LISTENER),
  },
  {
    name: 'all connections ended',
    kind: 'other',
    victim: 'postgres',
    run: (context) => endBackends(context, 'true'),
  },
  {
    name: 'some connections ended',
    kind: 'other',
    victim: 'postgres',
    run: (context) => endBackends(context, 'random() < 0.3'),
  },
  {
    name: 'PostgreSQL killed',
    kind: 'other',
    victim: 'postgres',
    run: ({ cluster, random }) => cluster.server.breakDown(random.integer(0, SHORT.max)),
  },
  {
    name: 'PostgreSQL killed, away longer than a lease',
    kind: 'other',
    victim: 'postgres',
    run: ({ cluster, random }) =>
      cluster.server.breakDown(random.integer(LONGER_THAN_LEASE.min, LONGER_THAN_LEASE.max)),
  },
  {
    name: 'kill -9 of pgbouncer',
    kind: 'other',
    victim: 'pgbouncer',
    listIsolated: ({ cluster }) => cluster.members.filter(({ isPooled }) => isPooled),
    run: async (context) => {
      await context.cluster.pooler?.kill();
      await waitFor(context, RESTART);
      await context.cluster.pooler?.restart();
    },
  },
  {
    name: 'clock of a supervisor steps',
    kind: 'other',
    victim: 'clock',
    run: async (context) => {
      const seconds = context.random.integer(-CLOCK_STEP_S, CLOCK_STEP_S);
      await stepClock(context, seconds);
      await waitFor(context, SHORT);
      await stepClock(context, 0);
    },
  },
];

/** Parts of a machine that some faults need: why each is missing, or false where it is there. */
type MissingParts = Readonly<Record<'pgbouncer' | 'clock', string | false>>;

/**
 * Selects the faults with these names, or all that this machine can have.
 *
 * @throws Error for a named one that needs a missing part: without it, the run would show that nothing happens
 */
export function selectFaults(only: readonly string[], missing: MissingParts): Fault[] {
  const whyNot = ({ victim }: Fault): string | false =>
    (victim === 'pgbouncer' || victim === 'clock') && missing[victim];
  if (only.length === 0) return faults.filter((fault) => whyNot(fault) === false);
  const named = faults.filter(({ name }) => only.includes(name));
  for (const fault of named) {
    const why = whyNot(fault);
    if (why !== false) throw new Error(`This machine cannot have the fault “${fault.name}”: ${why}.`);
  }
  return named;
}

async function stepClock({ clockFile }: FaultContext, seconds: number): Promise<void> {
  if (clockFile !== null) await writeFile(clockFile, `${seconds < 0 ? '' : '+'}${seconds}s\n`);
}
