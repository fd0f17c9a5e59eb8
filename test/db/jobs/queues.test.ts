/** Queues, the listener and what is built on them, against a real PostgreSQL. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import t from 'tap';
import { recordEvent } from '../../../db/installations/events.ts';
import {
  answerIntrospection,
  findIntrospection,
  requestIntrospection,
  sweepIntrospections,
} from '../../../db/jobs/introspections.ts';
import { JOB_PRIORITY, startQueues } from '../../../db/jobs/queues.ts';
import { mergeWaitingJobs } from '../../../db/jobs/waiting-jobs.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { notifyInstallationChanged, subscribeToInstallations } from '../../../db/postgres/notifications.ts';
import { inTransaction, takeNamedLock } from '../../../db/postgres/pool.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { endListeners } from '../../fixtures/listeners.ts';
import { type Teardown, testDatabase } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';

const onError = () => undefined;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A busy machine is slow many times in a row. */
const TIMES_MAX = 30;

/** Does it until it takes less than `enoughMs`. @returns the milliseconds of the fastest: a poll takes long each time */
async function timeFastest(enoughMs: number, work: () => Promise<unknown>): Promise<number> {
  let fastest = Number.POSITIVE_INFINITY;
  for (let count = 0; count < TIMES_MAX && fastest >= enoughMs; count += 1) {
    // After a job its worker looks for the next one by itself.
    await pause(100);
    const started = performance.now();
    await work();
    fastest = Math.min(fastest, performance.now() - started);
  }
  return fastest;
}

async function setUp(test: Teardown) {
  const { pool } = await testDatabase(test);
  const listener = await openListener(pool, onError);
  test.teardown(() => listener.close());
  const queues = await startQueues({ pool, listener, role: 'worker', onError });
  test.teardown(() => queues.stop(1_000));
  return { pool, listener, queues };
}

t.test('a job exists if and when its transaction commits, and is worked on at once', async (t) => {
  const { pool, queues } = await setUp(t);
  const worked: string[] = [];
  queues.work('events', async ({ eventId }) => void worked.push(eventId));
  await inTransaction(pool, async (tx) => {
    await queues.send(tx, 'events', { eventId: 'gone', installationId: 'i' });
    throw new Error('rolled back');
  }).catch(onError);
  const kept: string[] = [];
  const fastest = await timeFastest(500, async () => {
    kept.push(`kept ${kept.length}`);
    const eventId = kept.at(-1) ?? '';
    await inTransaction(pool, (tx) => queues.send(tx, 'events', { eventId, installationId: 'i' }));
    while (worked.length < kept.length) await pause(1);
  });
  t.ok(fastest < 500, `${fastest} ms, without waiting for a poll`);
  await pause(100);
  t.strictSame(worked, kept);
});

t.test('jobs of one installation come one after another, others pass by', async (t) => {
  const { pool, queues } = await setUp(t);
  const order: string[] = [];
  let running = 0;
  const { promise: passed, resolve: pass } = Promise.withResolvers<void>();
  queues.work('events', async ({ eventId, installationId }) => {
    if (installationId === 'slow') {
      running += 1;
      t.equal(running, 1);
      await passed;
      running -= 1;
    }
    order.push(eventId);
    if (eventId === 'q3') pass();
  });
  for (const n of [1, 2, 3])
    await queues.send(
      pool,
      'events',
      { eventId: `s${n}`, installationId: 'slow' },
      { group: { id: 'slow', accountId: 'a' } },
    );
  for (const n of [1, 2, 3])
    await queues.send(
      pool,
      'events',
      { eventId: `q${n}`, installationId: 'q' },
      { group: { id: 'q', accountId: 'b' } },
    );
  while (order.length < 6) await pause(5);
  t.strictSame(
    order.filter((id) => id.startsWith('s')),
    ['s1', 's2', 's3'],
  );
  t.ok(order.indexOf('q3') < order.indexOf('s1'), order.join());
});

t.test('one account does not take all places, and one that has none goes first', async (t) => {
  const { pool, queues } = await setUp(t);
  const running: string[] = [];
  const order: string[] = [];
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  queues.work('events', async ({ installationId }) => {
    order.push(installationId);
    if (!installationId.startsWith('a')) return;
    running.push(installationId);
    await gate;
  });
  const send = (installationId: string, accountId: string) =>
    queues.send(pool, 'events', { eventId: 'e', installationId }, { group: { id: installationId, accountId } });
  for (let n = 0; n < 30; n += 1) await send(`a${n}`, 'greedy');
  while (running.length < 11) await pause(5);
  for (const n of [1, 2, 3]) await send(`b${n}`, 'modest');
  while (order.filter((id) => id.startsWith('b')).length < 3) await pause(5);
  t.equal(running.length, 11, 'two thirds of 16');
  open();
  while (order.length < 33) await pause(5);
});

t.test(
  'the jobs of an account that wait become one for each installation, and another account’s passes them',
  async (t) => {
    const { pool, queues } = await setUp(t);
    const INSTALLATIONS = 20;
    const order: string[] = [];
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    queues.work('events', async ({ installationId }) => {
      order.push(installationId);
      if (installationId !== 'b') await gate;
    });
    const job = (installationId: string, accountId: string) => ({
      payload: { eventId: 'e', installationId },
      group: { id: installationId, accountId },
    });
    const ofGreedy = Array.from({ length: INSTALLATIONS }, (_, n) => job(`a${n}`, 'greedy'));
    await queues.sendToGroups(pool, 'events', ofGreedy);
    while (order.length < 11) await pause(5);
    for (let round = 0; round < 100; round += 1) await queues.sendToGroups(pool, 'events', ofGreedy);
    await queues.send(pool, 'events', job('a0', 'greedy').payload, {
      delaySeconds: 60,
      group: job('a0', 'greedy').group,
    });
    for (const name of ['updates', 'uninstall'] as const)
      await queues.sendToGroups(
        pool,
        name,
        [0, 1, 2].map(() => job('a0', 'greedy')),
      );
    const countJobs = async (name: string) =>
      (await pool.query(`SELECT count(*)::int FROM pgboss.job WHERE name = $1`, [name])).rows[0].count;
    const waiting = async () =>
      (
        await pool.query(
          `SELECT group_id, start_after > now() AS later FROM pgboss.job WHERE name = 'events' AND state = 'created'`,
        )
      ).rows;
    const before = await waiting();
    await inTransaction(pool, async (tx) => {
      await takeNamedLock(tx, 'merge waiting jobs');
      t.equal(await mergeWaitingJobs(pool), 0, 'not two at once');
    });
    t.equal(await mergeWaitingJobs(pool), before.length - INSTALLATIONS - 1 + 2);
    t.same([await countJobs('updates'), await countJobs('uninstall')], [1, 3]);
    const rest = await waiting();
    t.equal(rest.filter(({ later }) => later).length, 1, 'one that is not due stays');
    t.equal(new Set(rest.filter(({ later }) => !later).map((row) => row.group_id)).size, INSTALLATIONS);
    t.equal(rest.length, INSTALLATIONS + 1);
    await queues.sendToGroups(pool, 'events', [job('b', 'modest')]);
    while (!order.includes('b')) await pause(5);
    t.equal(order.length, 12);
    open();
    while (order.length < 11 + INSTALLATIONS + 1) await pause(5);
    t.same([...new Set(order)].length, INSTALLATIONS + 1);
  },
);

await soakTest(
  t,
  'an update that a user asked for goes before those of a rollout, also when jobs of one group are merged',
  async (t) => {
    const { pool, queues } = await setUp(t);
    const group = (id: string) => ({ id, accountId: `account of ${id}` });
    const roll = (installationId: string) => ({
      payload: { installationId },
      group: group(installationId),
      priority: JOB_PRIORITY.ROLLOUT,
    });
    const followers = Array.from({ length: 20 }, (_, n) => `f${n}`);
    await queues.sendToGroups(pool, 'updates', followers.map(roll));
    for (const id of ['f7', 'draft']) await queues.send(pool, 'updates', { installationId: id }, { group: group(id) });
    t.equal(await mergeWaitingJobs(pool), 1);
    const order: string[] = [];
    queues.work('updates', async ({ installationId }) => {
      order.push(installationId);
    });
    while (order.length < 21) await pause(5);
    t.same(order.slice(0, 2), ['f7', 'draft']);
  },
);

t.test('the publishes of one author wait for each other', async (t) => {
  const { pool, queues } = await setUp(t);
  const running: string[] = [];
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  queues.work('introspect', async ({ introspectionId }) => {
    running.push(introspectionId);
    await gate;
  });
  const send = (introspectionId: string, accountId: string) =>
    queues.send(
      pool,
      'introspect',
      { introspectionId, accountId, hasFetch: false },
      { group: { id: accountId, accountId } },
    );
  for (let n = 0; n < 24; n += 1) await send(`hog${n}`, 'hostile');
  while (running.length < 2) await pause(5);
  await send('good', 'honest');
  while (!running.includes('good')) await pause(5);
  t.equal(running.length, 3);
  open();
  while (running.length < 25) await pause(5);
});

t.test('a failed job is retried; a delayed job waits', async (t) => {
  const { pool, queues } = await setUp(t);
  const times: number[] = [];
  queues.work('uninstall', async () => {
    times.push(performance.now());
    if (times.length === 1) throw new Error('once');
  });
  const started = performance.now();
  await queues.send(pool, 'uninstall', { installationId: 'i' }, { delaySeconds: 1 });
  while (times.length < 2) await pause(10);
  t.ok((times[0] ?? 0) - started >= 900);
});

t.test('an event and its job are one with the transaction', async (t) => {
  const { pool, queues } = await setUp(t);
  const event = {
    installationId: 'i',
    accountId: 'a',
    pluginId: 'p',
    versionId: 'v',
    semVer: '1.0.0',
    type: 'pluginInstalled' as const,
    data: { reason: 'install' as const },
  };
  await inTransaction(pool, async (tx) => {
    await recordEvent(tx, queues, event);
    throw new Error('rolled back');
  }).catch(onError);
  const id = await inTransaction(pool, (tx) => recordEvent(tx, queues, event));
  const rows = await pool.query('SELECT id, state FROM events');
  t.strictSame(rows.rows, [{ id, state: 'pending' }]);
  const jobs = await pool.query(`SELECT data FROM pgboss.job WHERE name = 'events'`);
  t.strictSame(jobs.rows, [{ data: { eventId: id, installationId: 'i' } }]);
});

t.test('a lost listening connection is restored and reports that all may have changed', async (t) => {
  const { pool, listener } = await setUp(t);
  const notified: string[] = [];
  await subscribeToInstallations(
    listener,
    (change) => notified.push(change.installationId),
    () => notified.push('everything'),
  );
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
  await insertBareInstallation(pool, { accountId: 'a' });
  await notifyInstallationChanged(pool, 'i');
  while (notified.length < 1) await pause(5);
  await endListeners(pool);
  while (notified.length < 2) await pause(5);
  await notifyInstallationChanged(pool, 'i');
  while (notified.length < 3) await pause(5);
  t.strictSame(notified, ['i', 'everything', 'i']);
  t.equal(listener.isConnected(), true);
});

t.test('an introspection is requested, answered and deleted; without a supervisor it is unavailable', async (t) => {
  const { pool, listener, queues } = await setUp(t);
  const claimNext = (timeoutMs?: number) =>
    requestIntrospection(
      { pool, queues, listener },
      { bundleSha256: 'x', sourceName: 'x', accountId: 'a' },
      timeoutMs === undefined ? {} : { timeoutMs },
    );
  await t.rejects(claimNext(200), { code: 'unavailable', retryAfter: 5 });
  queues.work('introspect', async ({ introspectionId }) => {
    if (await findIntrospection(pool, introspectionId))
      await answerIntrospection(pool, introspectionId, { ok: false, message: 'no', stack: 'at x' });
  });
  const fastest = await timeFastest(450, async () =>
    t.match(await claimNext(), { ok: false, message: 'no', stack: 'at x' }),
  );
  t.ok(fastest < 450, `${fastest} ms, without a poll`);
  t.equal((await pool.query('SELECT 1 FROM introspections')).rows.length, 0);
});

t.test('the request of a killed supervisor is queued again as it was, and one that waits is not', async (t) => {
  const { pool, listener, queues } = await setUp(t);
  const request = { bundleSha256: 'x', sourceName: 'x', accountId: 'a', hasFetch: true };
  const answered = requestIntrospection({ pool, queues, listener }, request);
  const countJobs = async () =>
    (await pool.query(`SELECT count(*)::int FROM pgboss.job WHERE name = 'introspect'`)).rows[0].count;
  while ((await countJobs()) < 1) await pause(5);
  await sweepIntrospections(pool, queues, 0);
  t.equal(await countJobs(), 1);
  const payloads: object[] = [];
  queues.work('introspect', async (payload, accountId) => {
    payloads.push({ ...payload, ofGroup: accountId });
    // The first one takes the job and is never heard of again.
    if (payloads.length === 1) return new Promise(() => undefined);
    await answerIntrospection(pool, payload.introspectionId, { ok: false, message: 'no' });
  });
  while (payloads.length < 1) await pause(5);
  await sweepIntrospections(pool, queues, 0);
  t.match(await answered, { ok: false, message: 'no' });
  t.equal(payloads.length, 2);
  for (const payload of payloads) t.match(payload, { accountId: 'a', hasFetch: true, ofGroup: 'a' });
});

t.test(
  'a request whose job was fetched by no worker that lives is queued again, and one that runs is not',
  async (t) => {
    const { pool, listener, queues } = await setUp(t);
    const request = { bundleSha256: 'x', sourceName: 'x', accountId: 'a' };
    const answered = requestIntrospection({ pool, queues, listener }, request);
    const listJobs = async (): Promise<{ state: string; isRecent: boolean }[]> => {
      const sql = `SELECT state, heartbeat_on > now() - interval '5 s' AS "isRecent" FROM pgboss.job WHERE name = 'introspect' ORDER BY created_on`;
      return (await pool.query(sql)).rows;
    };
    const changeJobs = (change: string) => pool.query(`UPDATE pgboss.job SET ${change} WHERE name = 'introspect'`);
    while ((await listJobs()).length < 1) await pause(5);
    // As a fetch whose answer is lost.
    await changeJobs(`state = 'active', started_on = now(), heartbeat_on = now()`);
    await sweepIntrospections(pool, queues);
    t.equal((await listJobs()).length, 1, 'it may run');
    await changeJobs(`heartbeat_on = now() - interval '20 s'`);
    await sweepIntrospections(pool, queues);
    await sweepIntrospections(pool, queues);
    t.equal((await listJobs()).length, 2, 'queued again, once');
    const begun = Promise.withResolvers<string>();
    const gate = Promise.withResolvers<void>();
    queues.work('introspect', async ({ introspectionId }) => {
      begun.resolve(introspectionId);
      await gate.promise;
      await answerIntrospection(pool, introspectionId, { ok: false, message: 'no' });
    });
    await begun.promise;
    await changeJobs(`heartbeat_on = now() - interval '20 s'`);
    while (!(await listJobs())[1]?.isRecent) await pause(50);
    await sweepIntrospections(pool, queues);
    t.equal((await listJobs()).length, 2, 'it runs');
    gate.resolve();
    t.match(await answered, { ok: false, message: 'no' });
  },
);

await soakTest(t, 'the first sends need no connection besides that of their transaction', async (t) => {
  const { pool } = await testDatabase(t);
  const queues = await startQueues({ pool, role: 'producer', onError: t.error });
  t.teardown(() => queues.stop());
  const clients = await Promise.all(Array.from({ length: pool.options.max ?? 0 }, () => pool.connect()));
  try {
    for (const tx of clients) await tx.query('BEGIN');
    await Promise.all(clients.map((tx) => queues.send(tx, 'uninstall', { installationId: 'i' })));
    for (const tx of clients) await tx.query('COMMIT');
  } finally {
    for (const client of clients) client.release();
  }
  const { rows } = await pool.query(`SELECT 1 FROM pgboss.job WHERE name = 'uninstall'`);
  t.equal(rows.length, clients.length);
});

await soakTest(
  t,
  'a channel that the server refuses has no subscriber, and keeps no connection from coming back',
  async (t) => {
    const { pool } = await testDatabase(t);
    const listener = await openListener(pool, onError);
    t.teardown(() => listener.close());
    const subscriber = { onNotification: onError, onReconnect: onError };
    const asked = [listener.listen('', subscriber), listener.listen('', subscriber)];
    for (const one of asked) await t.rejects(one, /zero-length/);
    await t.rejects(listener.listen('', subscriber), /zero-length/, 'nor later');
    const { promise: isBack, resolve } = Promise.withResolvers<void>();
    await listener.listen('good', { onNotification: onError, onReconnect: resolve });
    await endListeners(pool);
    await isBack;
    t.ok(listener.isConnected());
  },
);

/** Passes connections on to the server until `cut`: then it keeps them open, and nothing comes through. */
async function openLink(t: Teardown, url: string) {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  const link = createServer((client) => {
    const server = connect(Number(port), hostname);
    for (const socket of [client, server]) sockets.push(socket.on('error', onError));
    client.pipe(server).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(link, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    link.close();
  });
  const linked = new URL(url);
  linked.host = `127.0.0.1:${(link.address() as AddressInfo).port}`;
  return { url: linked.href, cut: () => sockets.forEach((socket) => void socket.unpipe().pause()) };
}

await soakTest(
  t,
  'a link that is cut without a word holds up a request for one time limit, not until the next heartbeat',
  async (t) => {
    const { pool, url } = await testDatabase(t);
    const link = await openLink(t, url);
    const { promise: isLost, resolve } = Promise.withResolvers<Error>();
    const listener = await openListener(pool, resolve, { options: { connectionString: link.url } }, 100);
    t.teardown(() => listener.close());
    link.cut();
    const startedAt = performance.now();
    await listener.catchUp();
    const ms = performance.now() - startedAt;
    t.match(await isLost, { message: 'The LISTEN connection does not respond' });
    t.ok(ms < 9_000, `${ms} ms`);
  },
);
