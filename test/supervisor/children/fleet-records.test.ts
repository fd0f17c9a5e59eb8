/**
 * What the fleet refuses, what it records when the database comes back, what it makes of old rows, and how it counts children
 * that end. Its children are fakes.
 */
import type { Pool } from 'pg';
import t, { type Test } from 'tap';
import { openRetryingWriter } from '../../../service/timing/retrying-writer.ts';
import type { Child, ChildHandlers } from '../../../supervisor/children/child.ts';
import { Fleet, type FleetOptions } from '../../../supervisor/children/fleet.ts';
import { SecretMasks } from '../../../supervisor/records/secret-mask.ts';
import { eventually } from '../../runner/eventually.ts';
import { FakeChild, installed } from './fake-child.ts';

const NO_CHANNEL = { receive: false, send: false, handshake: false, handshakeOn: null };

const HOUR_MS = 3_600_000;
/** Ends after which an installation counts as failed. */
const FAILED_AFTER = 5;

const CALL = {
  target: { kind: 'tools', name: 'run' },
  invocationId: 'x',
  session: null,
  deadlineAt: 0,
  context: {},
} as const;

/**
 * @param query answers statements with their first two parameters
 * @param now the monotonic clock
 */
function makeFleet(
  t: Test,
  query: (sql: string, first: string, second: string) => Promise<unknown>,
  refusal: string | null = null,
  now = () => 0,
) {
  const children: FakeChild[] = [];
  /** What the next children wait for before they load. */
  const starts = { ready: Promise.resolve() };
  const masks = new SecretMasks();
  const nothing = (): void => undefined;
  const client = {
    query: (sql: string, values: readonly string[] = []) => query(sql, values[0] ?? '', values[1] ?? ''),
    release: nothing,
  };
  const pool = { ...client, connect: async () => client } as unknown as Pool;
  const options = {
    pool,
    ownership: { holds: () => true, fence: () => ({ shard: 0, epoch: 1 }), pool: () => pool },
    writes: openRetryingWriter(nothing),
    findRefusal: () => refusal,
    start: (handlers: ChildHandlers) => {
      const child = new FakeChild();
      child.handlers = handlers;
      child.ready = starts.ready;
      children.push(child);
      return child as unknown as Child;
    },
    spares: 0,
    childrenMax: 10,
    // Every child that has no call is idle for long enough.
    idleStopMs: -60_000,
    outputBytesPerSecond: 1,
    now,
    onServing: nothing,
    onRecovered: nothing,
    onError: nothing,
    logs: { system: nothing, sometimes: nothing },
    metrics: { childStarted: nothing, childEnded: nothing, childRestarted: nothing, sampled: nothing },
    masks,
    invocations: { begin: nothing, end: nothing },
    blobs: { read: async () => Buffer.from('') },
    hostCallRouter: { maskSecrets: nothing, listMembers: () => [] },
  } as unknown as FleetOptions;
  const fleet = new Fleet(options);
  t.teardown(async () => {
    options.writes.stop();
    await fleet.close(0);
  });
  return { fleet, children, masks, starts };
}

t.test('where the sandbox is missing, neither a call nor its author starts a plugin', async (t) => {
  const { fleet, children } = makeFleet(t, async () => ({ rows: [] }), 'there is no sandbox');
  const plugin = installed('v1');
  t.equal(await fleet.wake(plugin), 'there is no sandbox');
  t.equal(await fleet.inspect(plugin, { serve: () => undefined, end: () => undefined }), 'there is no sandbox');
  t.match(await fleet.invoke(plugin, CALL), { kind: 'unavailable', message: 'there is no sandbox' });
  t.same(children, []);
});

t.test('a state that the database did not take is saved with the next ones', async (t) => {
  const saved: string[] = [];
  let isAway = true;
  const { fleet } = makeFleet(t, async (sql, json) => {
    if (!sql.includes('INTO installation_runtime')) return { rows: [] };
    if (isAway) throw new Error('away');
    saved.push(...(JSON.parse(json) as readonly { readonly state: string }[]).map(({ state }) => state));
    return { rows: [] };
  });
  t.equal(await fleet.wake(installed('v1')), null);
  await fleet.stopAccounts(() => true);
  isAway = false;
  await fleet.stopAccounts(() => true);
  t.same(saved, ['stopped']);
});

t.test('a refusal that the database did not take is recorded by the next call', async (t) => {
  const recorded: unknown[] = [];
  let isAway = true;
  const failed = Promise.withResolvers<void>();
  const { fleet } = makeFleet(
    t,
    async (sql, installationId) => {
      if (!sql.startsWith('UPDATE installations')) return { rows: [] };
      if (!isAway) recorded.push(installationId);
      else setImmediate(failed.resolve);
      if (isAway) throw new Error('away');
      return { rows: [] };
    },
    'there is no sandbox',
  );
  await fleet.invoke(installed('v1'), CALL);
  await failed.promise;
  isAway = false;
  await fleet.invoke(installed('v1'), CALL);
  await fleet.invoke(installed('v1'), CALL);
  await new Promise(setImmediate);
  t.same(recorded, ['i1']);
});

t.test('what happens to an installation while the database is away is recorded afterwards, in order', async (t) => {
  const recorded: string[] = [];
  let isAway = true;
  let now = 0;
  const away = () => Promise.reject(Object.assign(new Error('it shuts down'), { code: '57P01' }));
  const query = async (sql: string, _installationId: string, status: string) => {
    if (isAway) return away();
    if (sql.startsWith('SELECT plugin_id')) recorded.push('rollback');
    if (sql.startsWith('UPDATE installations SET status')) recorded.push(status);
    return { rows: [] };
  };
  const { fleet, children } = makeFleet(t, query, null, () => now);
  const plugin = installed('v1', { rollbackUntil: new Date(Date.now() + HOUR_MS).toISOString() });
  for (let start = 1; start <= FAILED_AFTER; start += 1) {
    t.equal(await fleet.wake(plugin), null);
    await children.at(-1)?.end();
  }
  now += HOUR_MS;
  t.equal(await fleet.wake(plugin), null);
  isAway = false;
  await eventually(async () => recorded.length >= 5);
  t.same(recorded, ['rollback', 'rollback', 'rollback', 'failed', 'ready']);
});

/** The row of `installed('v1')`. */
function makeRow() {
  const registrations = { ...installed('v1').registrations, channel: NO_CHANNEL, tools: {} };
  return { ...installed('v1'), registrations, manifest: { settings: {}, secrets: {} }, given: {} };
}

/** The next child goes on with its calls when it is stopped with a grace. @returns what ends the child */
function keepRunning(child: FakeChild | undefined): () => void {
  const drained = Promise.withResolvers<void>();
  if (child)
    child.stop = ({ graceMs }) => {
      child.stops.push(graceMs);
      return graceMs === 0 ? child.kill() : drained.promise.then(child.kill);
    };
  return drained.resolve;
}

for (const stop of ['restart', 'retire'] as const)
  t.test(`children that run on after ${stop} count for their account until they end`, async (t) => {
    const { fleet, children } = makeFleet(t, async () => ({ rows: [] }));
    const ends: (() => void)[] = [];
    // Of ten places nine are not reserved, and an account may hold two for each free one.
    for (let start = 1; start <= 6; start += 1) {
      t.equal(await fleet.wake(installed('v1')), null, `start ${start}`);
      ends.push(keepRunning(children.at(-1)));
      void fleet[stop]('i1');
    }
    // A restart keeps the runner of the installation.
    t.match(fleet.countByState(), { draining: stop === 'retire' ? 6 : 1 });
    t.equal(fleet.measureLoad().busyRatio, 0.6);
    const waiting = fleet.wake(installed('v1'));
    await new Promise(setImmediate);
    t.equal(children.length, 6, 'the next start waits');
    t.equal(fleet.measureLoad().startsWaiting, 1);
    t.equal(await fleet.wake(installed('v1', { installationId: 'i2', accountId: 'a2' })), null, 'others do not');
    for (const end of ends) end();
    t.equal(await waiting, null);
    t.equal(children.length, 8);
  });

t.test('calls have time for a model after a restart, and that of a tool after a pause', async (t) => {
  const { fleet, children } = makeFleet(t, async () => ({ rows: [] }));
  for (const stop of ['restart', 'retire'] as const) {
    await fleet.wake(installed('v1'));
    await fleet[stop]('i1');
  }
  t.same(
    children.map(({ stops }) => stops[0]),
    [130_000, 60_000],
  );
});

t.test('an old version that runs on after an update counts as busy beside the new one, which is idle', async (t) => {
  const { fleet, children } = makeFleet(t, async () => ({ rows: [] }));
  await fleet.wake(installed('v1'));
  const end = keepRunning(children.at(-1));
  await fleet.wake(installed('v2'));
  t.equal(fleet.measureLoad().busyRatio, 0.1);
  end();
  await new Promise(setImmediate);
  t.equal(fleet.measureLoad().busyRatio, 0);
});

t.test('a child whose start outlasted its call, or was asked for, gives way after one called before', async (t) => {
  const { fleet, starts } = makeFleet(t, async () => ({ rows: [] }));
  const installedBy = (accountId: string) => installed('v1', { installationId: `of ${accountId}`, accountId });
  // Timers of deadlines keep no process alive.
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const called = await fleet.invoke(installedBy('first'), { ...CALL, deadlineAt: Date.now() + HOUR_MS });
  t.equal(called.kind, 'answered');
  const second = Promise.withResolvers<void>();
  starts.ready = second.promise;
  t.match(await fleet.invoke(installedBy('second'), CALL), { message: 'it is still starting' });
  starts.ready = Promise.resolve();
  second.resolve();
  await eventually(async () => fleet.getPid('of second') !== null);
  for (let account = 3; account <= 10; account += 1) t.equal(await fleet.wake(installedBy(`${account}`)), null);
  const isRunning = () => ['first', 'second', '3'].map((account) => fleet.getPid(`of ${account}`) !== null);
  t.same(isRunning(), [true, true, true], 'all ten places are taken');
  t.equal(await fleet.wake(installedBy('next')), null);
  t.same(isRunning(), [false, true, true]);
  t.equal(await fleet.wake(installedBy('second')), null);
  t.equal(await fleet.wake(installedBy('last')), null);
  t.same(isRunning(), [false, true, false], 'one that runs already is kept for the call after it, too');
});

t.test('a child that runs on after a restart is measured, and ends with its account or a block', async (t) => {
  const { fleet, children } = makeFleet(t, async () => ({ rows: [] }));
  const start = async () => {
    await fleet.wake(installed('v1'));
    const child = children.at(-1);
    keepRunning(child);
    void fleet.restart('i1');
    return child;
  };
  const moved = await start();
  let scheduled = 0;
  if (moved) {
    moved.rss = () => 7;
    moved.setCpuClasses = () => {
      scheduled += 1;
    };
  }
  t.match([...fleet.measureMemory()], [[{ slug: 'plugin' }, 7]]);
  await eventually(async () => scheduled > 0);
  await fleet.stopAccounts((accountId) => accountId === 'a1', 0);
  t.equal(moved?.state, 'dead');
  const blocked = await start();
  t.equal(blocked?.state, 'loaded');
  fleet.sync('a1', [installed('v2', { blockedReason: 'the operator blocked this plugin: it mines' })], 0);
  t.equal(blocked?.state, 'dead');
  const last = await start();
  await fleet.close(0);
  t.equal(last?.state, 'dead');
});

for (const end of ['restart', 'retire'] as const)
  t.test(`the end of a child that ran on after ${end} does not replace the state of the next one`, async (t) => {
    const saved: string[] = [];
    const { fleet, children } = makeFleet(t, async (sql, json) => {
      if (sql.includes('INTO installation_runtime'))
        saved.push(...(JSON.parse(json) as readonly { readonly state: string }[]).map(({ state }) => state));
      return { rows: [] };
    });
    await fleet.wake(installed('v1'));
    const drain = keepRunning(children.at(-1));
    const ended = fleet[end]('i1');
    await fleet.wake(installed('v1'));
    drain();
    await ended;
    await fleet.stopAccounts(() => false);
    t.same(saved, ['running']);
  });

t.test('an update whose installation was paused after its rows were read does not run', async (t) => {
  const row = { ...makeRow(), status: 'paused' };
  const { fleet, children } = makeFleet(t, async (sql) => ({ rows: sql.includes('i.target_version_id') ? [row] : [] }));
  const getReady = Promise.withResolvers<void>();
  const updated = fleet.update(installed('v1'), installed('v2'), () => Promise.reject(new Error('it was recorded')));
  // A process takes longer than the query.
  for (const child of children) child.ready = getReady.promise;
  await new Promise(setImmediate);
  getReady.resolve();
  t.match(await updated, { kind: 'postponed' });
  t.same([...fleet.listAccounts()], []);
});

t.test('a draft is limited with its author’s plugins', async (t) => {
  const { fleet } = makeFleet(t, async () => ({ rows: [] }));
  const draft = new FakeChild();
  const accounts: string[] = [];
  draft.assignAccount = (accountId: string) => void accounts.push(accountId);
  fleet.scheduleDraft(draft as unknown as Child, { versionId: 'introspection', accountId: 'author' });
  t.same(accounts, ['author']);
});

t.test('an installation that began to run after the rows without it were read goes on', async (t) => {
  const row = makeRow();
  let status = 'ready';
  const { fleet, children } = makeFleet(t, async (sql) => {
    if (status === 'unknown') throw new Error('away');
    return { rows: sql.includes('v.id = i.current_version_id') ? [{ ...row, status }] : [] };
  });
  const readAt = performance.now();
  await fleet.wake(installed('v1'));
  fleet.sync('a1', [], readAt);
  await new Promise(setImmediate);
  t.equal(fleet.getPid('i1'), 1, 'an event of its installation may have started it');

  status = 'paused';
  fleet.sync('a1', [], readAt);
  await new Promise(setImmediate);
  t.equal(fleet.getPid('i1'), null, 'unless it was removed or paused since');

  await fleet.wake(installed('v1'));
  status = 'unknown';
  fleet.sync('a1', [], readAt);
  await new Promise(setImmediate);
  t.equal(fleet.getPid('i1'), null, 'or that cannot be found out');

  await fleet.wake(installed('v1'));
  fleet.sync('a1', [], performance.now());
  t.equal(fleet.getPid('i1'), null, 'rows that were read later decide at once');
  t.equal(children.length, 3);
});

t.test('an installation whose child is idle takes no memory; one that has failed is remembered', async (t) => {
  const { fleet, children } = makeFleet(t, async () => ({ rows: [] }));
  const save = () => fleet.stopAccounts(() => false);
  await fleet.wake(installed('v1'));
  await fleet.wake(installed('v1', { installationId: 'i2', accountId: 'a2' }));
  await children[1]?.end();
  fleet.sweep();
  t.same([...fleet.listAccounts()], ['a1', 'a2']);
  await new Promise(setImmediate);
  await save();
  fleet.sweep();
  t.same([...fleet.listAccounts()], ['a2']);
  t.equal(await fleet.wake(installed('v1')), null);
  t.equal(children.length, 3);
});

t.test('the secrets of an installation are masked as long as any of its children may write', async (t) => {
  const { fleet, children, masks } = makeFleet(t, async () => ({ rows: [] }));
  await fleet.wake(installed('v1'));
  masks.open('i1').add('key', 'a long secret value');
  const [draining] = children;
  const drained = Promise.withResolvers<void>();
  if (draining) draining.stop = () => drained.promise.then(draining.kill);
  const retired = fleet.retire('i1');
  // Its user has resumed it, and the next child is idle before the calls of the first one have ended.
  await fleet.wake(installed('v1'));
  fleet.sweep();
  await new Promise(setImmediate);
  await fleet.stopAccounts(() => false);
  fleet.sweep();
  t.same([...fleet.listAccounts()], []);
  t.equal(masks.get('i1').isEmpty, false);
  await fleet.wake(installed('v1'));
  await fleet.retire('i1');
  fleet.sweep();
  t.equal(masks.get('i1').isEmpty, false);
  drained.resolve();
  await retired;
  // Of a host call that was not aborted.
  masks.open('i1').add('key', 'another secret value');
  fleet.sweep();
  t.equal(masks.get('i1').isEmpty, true);
});
