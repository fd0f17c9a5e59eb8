/** The heartbeat keeps nothing waiting that cannot come any more. */
import t from 'tap';
import { createBusyError } from '../../../db/postgres/database-errors.ts';
import { Heartbeat } from '../../../supervisor/cluster/heartbeat.ts';
import { testDatabase } from '../../runner/harness.ts';

const HOUR_MS = 3_600_000;
const { pool } = await testDatabase(t);

t.test('a beat that was asked for ends with the heartbeat', async (t) => {
  const reached = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  let beats = 0;
  const heartbeat = new Heartbeat({
    pool,
    beat: async () => {
      beats += 1;
      if (beats === 2) {
        reached.resolve();
        await held.promise;
      }
      return HOUR_MS;
    },
    onError: (error) => t.fail(error.message),
  });
  await heartbeat.start();
  const second = heartbeat.beatNow();
  await reached.promise;
  const third = heartbeat.beatNow();
  const stopped = heartbeat.stop();
  held.resolve();
  await Promise.all([second, third, stopped]);
  await heartbeat.beatNow();
  t.equal(beats, 2);
});

t.test('a first beat that the database interrupts is repeated; another error ends the start', async (t) => {
  const [first, second] = [createBusyError(), createBusyError()];
  const failures = [first, second];
  const reported: Error[] = [];
  const heartbeat = new Heartbeat({
    pool,
    beat: async () => {
      const failure = failures.shift();
      if (failure) throw failure;
      return HOUR_MS;
    },
    onError: (error) => reported.push(error),
    retryMs: 1,
  });
  await heartbeat.start();
  t.equal(failures.length, 0);
  t.same(reported, [first]);
  await heartbeat.stop();

  const faulty = new Error('a fault of the program');
  let beats = 0;
  const broken = new Heartbeat({
    pool,
    beat: async () => {
      beats += 1;
      throw faulty;
    },
    onError: (error) => t.fail(error.message),
  });
  await t.rejects(broken.start(), faulty);
  t.equal(beats, 1);
  await broken.stop();
});
