/** How a runner takes the ends of children that load, and of one that dies while its update is recorded. The children are fakes. */
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import type { PluginCall } from '../../../supervisor/calls/plugin-call.ts';
import type { Child, ChildHandlers } from '../../../supervisor/children/child.ts';
import { ChildError } from '../../../supervisor/children/child-errors.ts';
import { InstallationRunner, type RunnerDeps } from '../../../supervisor/children/installation-runner.ts';
import { STABLE_AFTER_MS } from '../../../supervisor/children/restart-policy.ts';
import { StartQueue } from '../../../supervisor/children/start-queue.ts';
import { SecretMasks } from '../../../supervisor/records/secret-mask.ts';
import { FakeChild, installed } from './fake-child.ts';

const FAILED_AFTER = 5;
const ROLLED_BACK_AFTER = 3;
/** The longest backoff after a first exit, with its random share. Milliseconds. */
const FIRST_BACKOFF_MS = 1_200;
/** The longest backoff, with its random share. Milliseconds. */
const LONGEST_BACKOFF_MS = 72_000;
/** More than may fail an installation, and than kills from outside that do not count. */
const MANY_STARTS = 16;
/** Exits of longer ago do not count. Milliseconds. */
const EXITS_WINDOW_MS = 600_000;

/**
 * @param prepare changes a child before it is started
 * @param now the monotonic clock
 * @param read reads the bundle
 * @param startInTurn runs a start when it is its turn
 */
function makeRunner(
  plugin: InstalledPlugin,
  prepare: (child: FakeChild, number: number) => void = () => undefined,
  now = () => 0,
  read: () => Promise<Buffer> = async () => Buffer.from(''),
  startInTurn: RunnerDeps['startInTurn'] = (_runner, start) => start(),
) {
  const children: FakeChild[] = [];
  const failures: (string | null)[] = [];
  const loops: unknown[] = [];
  const lines: string[] = [];
  const restarts: string[] = [];
  const nothing = (): void => undefined;
  const takeChild = () => {
    const child = new FakeChild();
    prepare(child, children.length);
    children.push(child);
    return {
      child: child as unknown as Child,
      setHandlers: (handlers: ChildHandlers) => {
        child.handlers = handlers;
      },
    };
  };
  const deps = {
    outputBytesPerSecond: 1,
    now,
    startInTurn,
    takeChild,
    onChange: nothing,
    onServing: nothing,
    onEnded: nothing,
    onFailed: (_runner: unknown, reason: string | null) => failures.push(reason),
    onCrashLoop: (_runner: unknown, loop: unknown) => loops.push(loop),
    logs: { system: (_plugin: unknown, _level: unknown, message: string) => lines.push(message), sometimes: nothing },
    metrics: {
      childStarted: nothing,
      childEnded: nothing,
      childRestarted: (_plugin: unknown, kind: string) => restarts.push(kind),
    },
    blobs: { read },
    hostCallRouter: { maskSecrets: nothing, listMembers: () => [] },
    invocations: { begin: nothing, end: nothing },
    masks: new SecretMasks(),
  } as unknown as RunnerDeps;
  return { runner: new InstallationRunner(deps, plugin), children, failures, loops, lines, restarts };
}

const makeCall = (more: Partial<PluginCall> = {}): PluginCall =>
  ({
    target: { kind: 'tools', name: 'run' },
    invocationId: 'call',
    session: null,
    deadlineAt: Date.now() + 60_000,
    context: {},
    ...more,
  }) as PluginCall;

t.test('an end at load is one failure of the plugin', async (t) => {
  const { runner, failures } = makeRunner(installed('v1'), (child) => child.endAtLoad(false));
  for (let start = 1; start < FAILED_AFTER; start += 1) {
    t.match(await runner.wake(), 'it ended');
    t.match(runner.describe(), { restarts: start, state: 'backoff' });
  }
  t.same(failures, []);
  await runner.wake();
  t.same(failures, ['it ended']);
});

t.test(
  'a version beside which the previous one serves does not fail the installation by its ends at load',
  async (t) => {
    const { runner, failures, children } = makeRunner(installed('v1'), (child, number) => {
      if (number > 0) child.endAtLoad(false);
    });
    t.equal(await runner.wake(), null);
    runner.update(installed('v2'));
    for (let start = 1; start <= FAILED_AFTER; start += 1) t.match(await runner.wake(), 'it ended');
    t.ok(children.length > FAILED_AFTER);
    t.match(runner.describe(), { restarts: 0, state: 'running' });
    t.same(failures, []);
  },
);

t.test('a kill from outside at load is no failure of the plugin', async (t) => {
  const { runner, failures } = makeRunner(installed('v1'), (child) => child.endAtLoad(true));
  for (let start = 1; start <= FAILED_AFTER; start += 1) await runner.wake();
  t.same(failures, []);
  t.match(runner.describe(), { restarts: FAILED_AFTER, state: 'stopped' });
});

t.test('a version is rolled back for its own failures, and not for those of the machine', async (t) => {
  const plugin = installed('v1', { rollbackUntil: new Date(Date.now() + 3_600_000).toISOString() });
  let now = 0;
  let read: (() => Promise<Buffer>) | undefined;
  let ready = () => Promise.reject<void>(new ChildError('dead', 'it was not ready within 10000 ms'));
  const overloaded = makeRunner(
    plugin,
    (child) => {
      child.ready = ready();
      child.ready.catch(() => undefined);
    },
    () => now,
    () => (read ?? (async () => Buffer.from('')))(),
  );
  for (let start = 1; start <= MANY_STARTS; start += 1) t.match(await overloaded.runner.wake(), 'it was not ready');
  ready = async () => undefined;
  for (const code of ['EMFILE', 'EIO', 'ENOMEM']) {
    read = () => Promise.reject(Object.assign(new Error(`${code}: it failed`), { code }));
    t.equal(await overloaded.runner.wake(), 'its bundle cannot be read');
    t.match(await overloaded.runner.moveTo(installed('v2'), () => Promise.reject(new Error('it was recorded'))), {
      kind: 'postponed',
    });
  }
  t.match(overloaded.runner.describe(), { state: 'backoff', restarts: MANY_STARTS + 3 });
  t.match(await overloaded.runner.invoke(makeCall()), {
    kind: 'unavailable',
    message: /^it did not start \(its bundle cannot be read\); the first call after \d+ s starts it again$/,
  });
  t.same([overloaded.loops, overloaded.failures], [[], []]);
  const isStartLine = (line: string): boolean => line.startsWith('It does not start');
  t.same(overloaded.lines.filter(isStartLine), [], 'a line that repeats is written once an hour');
  t.same(overloaded.restarts, [], 'nor does BulkheadPluginRestarting count them');
  read = undefined;
  now += LONGEST_BACKOFF_MS;
  t.match(
    await overloaded.runner.invoke(makeCall()),
    { kind: 'answered' },
    'within a minute of the machine’s recovery',
  );
  // A fault that may last counts: deliveries would wait for ever.
  for (const error of [Object.assign(new Error('ENOENT: no such file'), { code: 'ENOENT' }), new Error('unexpected')]) {
    const lost = makeRunner(plugin, undefined, undefined, () => Promise.reject(error));
    for (let start = 1; start <= ROLLED_BACK_AFTER; start += 1) await lost.runner.wake();
    t.match(lost.loops, [{ versionId: 'v1', reason: 'its bundle cannot be read', cause: 'not_started' }]);
    for (let start = ROLLED_BACK_AFTER; start < FAILED_AFTER; start += 1) await lost.runner.wake();
    t.same(lost.failures, ['its bundle cannot be read']);
    t.equal(lost.lines.filter(isStartLine).length, FAILED_AFTER);
    t.equal(lost.restarts.length, FAILED_AFTER);
  }
  const failing = makeRunner(plugin, (child) => {
    child.load = () => Promise.reject(new ChildError('load', 'it threw'));
  });
  for (let start = 1; start <= ROLLED_BACK_AFTER; start += 1) await failing.runner.wake();
  t.match(failing.loops, [{ versionId: 'v1', reason: 'it threw', cause: 'not_started' }]);
});

t.test('the time in which a version may be rolled back is one of the wall clock', async (t) => {
  const plugin = installed('v1', { rollbackUntil: new Date(Date.now() - 1).toISOString() });
  const { runner, loops } = makeRunner(plugin, (child) => child.endAtLoad(false));
  for (let start = 1; start < FAILED_AFTER; start += 1) await runner.wake();
  t.match(runner.describe(), { restarts: FAILED_AFTER - 1 });
  t.same(loops, []);
});

t.test('a run is stable by the monotonic clock', async (t) => {
  let now = 0;
  const { runner, children } = makeRunner(installed('v1'), undefined, () => now);
  const crash = async (): Promise<void> => {
    t.equal(await runner.wake(), null);
    await children.at(-1)?.end();
  };
  for (let end = 1; end < FAILED_AFTER; end += 1) await crash();
  now += FIRST_BACKOFF_MS;
  t.equal(runner.describe().state, 'backoff');
  t.equal(await runner.wake(), null);
  now += STABLE_AFTER_MS;
  runner.recordStableRun();
  now += EXITS_WINDOW_MS;
  await children.at(-1)?.end();
  t.equal(runner.describe().state, 'backoff');
  now += FIRST_BACKOFF_MS;
  t.equal(runner.describe().state, 'stopped', 'the first backoff follows a stable run');
});

t.test('a stop does not wait for a start beside the child that serves', async (t) => {
  const loading = Promise.withResolvers<void>();
  const { runner, children } = makeRunner(installed('v1'), (child, number) => {
    if (number > 0) child.load = () => loading.promise;
  });
  t.equal(await runner.wake(), null);
  runner.update(installed('v2'));
  await new Promise(setImmediate);
  runner.withdraw();
  const stopped = runner.stop(0);
  t.same(children[0]?.stops[0], 0);
  loading.resolve();
  await stopped;
  t.same(children.length, 2);
  t.equal(children[1]?.state, 'dead', 'the one that was starting ends, too');
});

t.test('an update that waited for a start does not begin after a stop', async (t) => {
  const loading = Promise.withResolvers<void>();
  const { runner, children } = makeRunner(installed('v1'), (child) => {
    child.load = () => loading.promise;
  });
  const started = runner.wake();
  await new Promise(setImmediate);
  const updated = runner.moveTo(installed('v2'), () => Promise.reject(new Error('it was recorded')));
  runner.withdraw();
  const stopped = runner.stop(0);
  loading.resolve();
  t.same(await updated, { kind: 'postponed', reason: 'it was stopped' });
  await Promise.all([started, stopped]);
  t.equal(children.length, 1, 'the new version has had no child');
});

t.test('a start takes no child if its plugin was stopped before its turn', async (t) => {
  const { runner, children } = makeRunner(installed('v1'));
  const started = runner.wake();
  runner.withdraw();
  await runner.stop(0);
  t.equal(await started, 'it was stopped');
  t.equal(await runner.wake(), 'it was stopped');
  t.same(children, []);
});

t.test('a stop ends the children that load or prove that they answer', async (t) => {
  const untilItEnds = (child: FakeChild) => () =>
    child.ended.then(({ reason }) => Promise.reject<void>(new ChildError('dead', reason)));
  const starting = makeRunner(installed('v1'), (child) => {
    child.load = untilItEnds(child);
  });
  const started = starting.runner.wake();
  await new Promise(setImmediate);
  starting.runner.withdraw();
  await starting.runner.stop(60_000);
  t.equal(await started, 'it ended');
  for (const step of ['load', 'checkHealth'] as const) {
    const updating = makeRunner(installed('v1'), (child, number) => {
      if (number > 0) child[step] = untilItEnds(child);
    });
    t.equal(await updating.runner.wake(), null);
    const updated = updating.runner.moveTo(installed('v2'), () => Promise.reject(new Error('it was recorded')));
    await new Promise(setImmediate);
    updating.runner.closing = true;
    await updating.runner.stop(60_000);
    t.match(await updated, { kind: 'postponed' });
    t.same([updating.runner.children, updating.failures], [0, []]);
  }
});

t.test('a stop ends only when the child of an update has ended, and stops the others before', async (t) => {
  const loading = Promise.withResolvers<void>();
  const draining = Promise.withResolvers<void>();
  const { runner, children } = makeRunner(installed('v1'), (child, number) => {
    if (number === 0)
      child.stop = (options) => draining.promise.then(() => FakeChild.prototype.stop.call(child, options));
    if (number === 2) child.load = () => loading.promise;
  });
  t.equal(await runner.wake(), null);
  runner.update(installed('v2'));
  t.equal(await runner.wake(), null);
  const updated = runner.moveTo(installed('v3'), () => Promise.reject(new Error('it was recorded')));
  await new Promise(setImmediate);
  t.equal(runner.children, 3);
  runner.withdraw();
  let hasStopped = false;
  const stopped = runner.stop(0).then(() => {
    hasStopped = true;
  });
  draining.resolve();
  await new Promise(setImmediate);
  t.same(
    children.map(({ state }) => state),
    ['dead', 'dead', 'dead'],
  );
  t.equal(hasStopped, false);
  loading.resolve();
  t.match(await updated, { kind: 'postponed' });
  await stopped;
  t.equal(runner.children, 0);
  t.equal(children[2]?.state, 'dead');
});

t.test('an update that is recorded while its plugin is stopped gives no access back', async (t) => {
  const access = { granted: ['host.storage'], secretUses: { key: null } };
  const { runner } = makeRunner(installed('v1', access));
  t.equal(await runner.wake(), null);
  await runner.moveTo(installed('v2', access), async () => {
    runner.withdraw();
    return installed('v2', access);
  });
  t.strictSame([runner.plugin.granted, runner.plugin.secretUses], [[], {}]);
});

t.test('a call waits for another child if the new version dies while its update is recorded', async (t) => {
  const { runner, children } = makeRunner(installed('v1'));
  t.equal(await runner.wake(), null);
  const outcome = await runner.moveTo(installed('v2'), async () => {
    await children[1]?.end();
    return installed('v2');
  });
  t.same(outcome, { kind: 'moved' });
  t.match(await runner.invoke(makeCall()), { kind: 'answered', answer: 'done' });
  t.equal(children.length, 3);
});

t.test('a new version gets the settings that were saved while it started', async (t) => {
  const { runner, children } = makeRunner(installed('v1'));
  t.equal(await runner.wake(), null);
  const settings = { word: 'new' };
  t.same(await runner.moveTo(installed('v2'), async () => ({ ...installed('v2'), settings })), { kind: 'moved' });
  t.same(children[1]?.settings, settings);
  t.same(runner.plugin.settings, settings);
});

t.test('a caller who leaves gives up the start for its call, and not an update that waits, too', async (t) => {
  let isFull = true;
  const queue = new StartQueue({
    max: 1,
    count: () => ({ total: Number(isFull), busy: Number(isFull), busyOf: () => 0 }),
    stopIdle: () => null,
  });
  t.teardown(() => queue.close());
  const { runner, children } = makeRunner(installed('v1'), undefined, undefined, undefined, (owner, start, signal) =>
    queue.run(owner, start, signal),
  );
  const moved = runner.moveTo(installed('v2'), async () => installed('v2'));
  const caller = new AbortController();
  const called = runner.invoke(makeCall({ signal: caller.signal }));
  await new Promise(setImmediate);
  t.equal(queue.waiting, 2);
  caller.abort();
  t.match(await called, { kind: 'unavailable', message: 'it was stopped' });
  t.equal(queue.waiting, 1);
  isFull = false;
  t.same(await moved, { kind: 'moved' });
  t.equal(children.length, 1);
});

t.test('timeouts shortly after each other start no second process of the version', async (t) => {
  // Timers of deadlines keep no process alive.
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const { runner, children } = makeRunner(installed('v1'));
  t.equal(await runner.wake(), null);
  const child = children[0] as FakeChild;
  const { invoke } = child;
  const vendors = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const calls = vendors.map(({ promise }) => {
    child.invoke = async () => {
      await promise;
      throw new ChildError('timeout', 'it took too long');
    };
    return runner.invoke(makeCall());
  });
  child.invoke = invoke;
  vendors[0]?.resolve();
  t.match(await calls[0], { kind: 'timeout' });
  const next = runner.invoke(makeCall());
  vendors[1]?.resolve();
  t.match(await calls[1], { kind: 'timeout' });
  t.equal(await runner.wake(), null);
  t.match(await next, { kind: 'answered' });
  await new Promise(setImmediate);
  t.equal(children.length, 1);
  t.same(child.stops, []);
});

t.test('the call of a busy child was not sent', async (t) => {
  const { runner } = makeRunner(installed('v1'), (child) => {
    child.invoke = async () => {
      throw new ChildError('busy', 'too many calls wait for this plugin');
    };
  });
  t.match(await runner.invoke(makeCall()), { kind: 'unavailable', overLimit: true, isUnsent: true });
});
