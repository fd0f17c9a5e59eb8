/**
 * `npm start` as a whole under load, while API, supervisor, plugin processes and PostgreSQL are killed at random: what was
 * acknowledged arrives, in order, soon.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type ServiceFixture, startServiceFixture } from '../deploy/service-fixture.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { seededRandom } from '../runner/random.ts';
import { amount } from '../runner/soak.ts';
import { Ledger, type Verdict } from './ledger.ts';
import { CAPABILITIES, REPORTING, startRecorder } from './recorder.ts';
import { Vendor } from './vendor.ts';

const SECONDS = amount({ quick: 3, soak: 600 });
const CHANNELS = 4;
/** Maximum wait of anything once the storm is over, milliseconds. All services may start again first, beside other files. */
const STUCK_MS = 60_000;
/** Between kills, milliseconds: long enough that some of them meet a service that runs, short enough that others do not. */
const PAUSE_MS = amount({ quick: { min: 500, max: 2_000 }, soak: { min: 1_000, max: 6_000 } });
const random = seededRandom();

const README = `---
name: Storm
description: Reports every arrival
capabilities: [${CAPABILITIES.join(', ')}]
---
`;

/** Publishes and installs the reporting plugin, and connects its channels. */
async function settle(service: ServiceFixture, ledger: Ledger): Promise<Vendor> {
  const made = async (path: string, body: unknown) => {
    const answer = await service.call('POST', path, body);
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return answer.body;
  };
  const plugin = await made('/api/plugins', { slug: 'storm', displayName: 'Storm' });
  const files = [
    { path: 'readme.md', contentText: README },
    { path: 'index.ts', contentText: REPORTING },
  ];
  await made(`/api/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files });
  const { id } = await made('/api/installations', { slug: 'storm', versionPolicy: 'Latest' });
  const routingIds: string[] = [];
  for (let at = 0; at < CHANNELS; at += 1) {
    const { webhookUrl } = await made(`/api/installations/${id}/channels`, { name: `c${at}` });
    routingIds.push(webhookUrl.split('/').at(-1));
  }
  const sessionUrl = `http://localhost:${service.env.SUPERVISOR_PORT}`;
  return new Vendor({ ledger, url: service.url, sessionUrl, routingIds, token: service.token, installationId: id });
}

interface Kill {
  readonly victim: string;
  readonly at: number;
}
type Double = Verdict['doubles'][number];

/** Processes that may be hit, by a part of their command line. PostgreSQL is found by its own file. */
const VICTIMS = ['api/main.ts', 'supervisor/main.ts', 'plugin', 'postgres'] as const;

/** @returns what was hit; null: it was not there just now */
async function strike(service: ServiceFixture, victim: string): Promise<string | null> {
  const pid = victim === 'postgres' ? await postmaster(service) : await processOf(service, victim);
  if (pid === null) return null;
  try {
    process.kill(pid, 'SIGKILL');
    return victim;
  } catch {
    return null;
  }
}

async function processOf(service: ServiceFixture, victim: string): Promise<number | null> {
  const all = await service.processes();
  const below = all.filter(({ command }) =>
    victim === 'plugin' ? /bwrap|\/sandbox\//.test(command) : command.includes(victim),
  );
  return below.length === 0 ? null : random.pick(below).pid;
}

async function postmaster({ env }: ServiceFixture): Promise<number | null> {
  const pid = await readFile(join(env.DATA_DIR ?? '', 'postgres/postmaster.pid'), 'utf8').catch(() => '');
  return Number.parseInt(pid, 10) || null;
}

t.test('nothing that was acknowledged is lost, reordered or stuck', async (t) => {
  const ledger = new Ledger(await temporaryFolder(t));
  const service = await startServiceFixture(t, {
    DATA_DIR: await temporaryFolder(t),
    MODELS_FILE: await startRecorder(t, ledger),
    WRITES_PER_MINUTE: '1000000',
    READS_PER_MINUTE: '1000000',
    LOG_LEVEL: 'error',
  });
  const vendor = await settle(service, ledger);
  await vendor.openConversations(vendor.routingIds.slice(0, 1));
  const over = Promise.withResolvers<void>();
  const load = vendor.sendUntil(over.promise);
  const kills: Kill[] = [];
  for (const until = Date.now() + SECONDS * 1000; Date.now() < until || kills.length < VICTIMS.length; ) {
    // Each victim once, then by chance.
    const victim = await strike(service, VICTIMS[kills.length] ?? random.pick(VICTIMS));
    if (victim !== null) kills.push({ victim, at: Date.now() });
    await sleep(random.integer(PAUSE_MS.min, PAUSE_MS.max));
  }
  over.resolve();
  await load;
  const calm = Date.now();
  await eventually(() => ledger.verdict().lost.length === 0).catch(() => undefined);
  const settledMs = Date.now() - calm;
  const { lost, misplaced, doubles, waits } = ledger.verdict();
  const again = countBy(doubles, (double) => blameOf(double, kills));
  const facts = {
    acknowledged: waits.length,
    unanswered: vendor.unanswered,
    doubled: doubles.length,
    again,
    settledMs,
  };
  const hits = countBy(kills, ({ victim }) => victim);
  t.comment(JSON.stringify({ ...facts, hits, p99Ms: waits[Math.floor(waits.length * 0.99)], slowestMs: waits.at(-1) }));
  t.same({ lost, misplaced }, { lost: [], misplaced: [] });
  t.ok(settledMs < STUCK_MS, `the last arrived ${settledMs} ms after the storm`);
  // Work that was under way when its process died is repeated: at most one of a queue, a reply and an event at each kill.
  t.ok(doubles.length <= kills.length * (CHANNELS + 2), `${doubles.length} came again after ${kills.length} kills`);
});

/** Names the process that was hit last before a repetition. */
const blameOf = ({ againAt }: Double, kills: readonly Kill[]): string =>
  kills.findLast(({ at }) => at < againAt)?.victim ?? 'nobody';

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const item of items) counts[keyOf(item)] = (counts[keyOf(item)] ?? 0) + 1;
  return counts;
}
