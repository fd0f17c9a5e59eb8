/** What is logged and measured of a bucket that is away, and that a bucket which was not compared at the start is not used before. */
import { EventEmitter, once } from 'node:events';
import t from 'tap';
import { ClusterMismatchError } from '../../db/cluster/cluster-record.ts';
import { BlobStoreUnavailableError } from '../../db/files/blob-errors.ts';
import type { ObjectStore } from '../../db/files/s3.ts';
import { BucketWatch } from '../../service/storage/bucket-watch.ts';
import type { Teardown } from '../runner/harness.ts';

const AWAY = new BlobStoreUnavailableError('The blob store does not answer: status 503.');
const OTHER = new ClusterMismatchError('It holds the packages of another cluster.');

/** A bucket whose requests and comparisons fail with these errors while they are set. */
function watchBucket(t: Teardown, unread: BlobStoreUnavailableError | null, checkEveryMs?: number) {
  const faults: { use: Error | null; compare: Error | null } = { use: unread, compare: unread };
  const used: string[] = [];
  const errors: string[] = [];
  const log = new EventEmitter();
  const send = <T>(what: string, answer: T) => {
    used.push(what);
    return faults.use === null ? Promise.resolve(answer) : Promise.reject(faults.use);
  };
  const bucket: ObjectStore = {
    address: 's3://packages/one',
    put: () => send('put', undefined),
    get: () => send('get', null),
    getPiece: () => send('getPiece', null),
    delete: () => send('delete', undefined),
  };
  const watch = new BucketWatch({
    logger: {
      error: (_fields: unknown, sentence?: string) => errors.push(sentence ?? ''),
      warn: (sentence: unknown) => log.emit('warning', sentence),
    },
    unread,
    compareMark: async () => {
      if (faults.compare !== null) throw faults.compare;
    },
    ...(checkEveryMs === undefined ? {} : { checkEveryMs }),
  });
  t.teardown(() => watch.close());
  return { watch, objects: watch.watch(bucket), faults, used, errors, log };
}

t.test('the first failure is logged with its cause, and the end of the outage', async (t) => {
  const { watch, objects, faults, errors, log } = watchBucket(t, null, 1);
  t.equal(await objects.get('a', 1), null);
  t.ok(watch.isAvailable());
  faults.use = faults.compare = AWAY;
  await t.rejects(objects.get('a', 1), AWAY);
  await t.rejects(objects.delete('a'), AWAY);
  t.notOk(watch.isAvailable());
  t.same(errors, [AWAY.message]);
  const back = once(log, 'warning');
  faults.use = faults.compare = null;
  t.match(await back, [/^The blob store can be read again after \d+ s\.$/]);
  t.ok(watch.isAvailable());
});

t.test('errors of another kind are no outage', async (t) => {
  const { watch, objects, faults, errors } = watchBucket(t, null);
  faults.use = new Error('The database is away.');
  await t.rejects(objects.get('a', 1), faults.use);
  t.ok(watch.isAvailable());
  t.same(errors, []);
});

t.test('a bucket that was away at the start is compared before it is used', async (t) => {
  const { watch, objects, faults, used, errors } = watchBucket(t, AWAY);
  t.notOk(watch.isAvailable());
  t.same(errors, [AWAY.message]);
  await t.rejects(objects.delete('a'), AWAY);
  faults.use = null;
  faults.compare = OTHER;
  const refusal = { name: 'BlobStoreUnavailableError', message: OTHER.message };
  await t.rejects(objects.delete('a'), refusal);
  await t.rejects(objects.get('a', 1), refusal);
  t.same(used, [], 'nothing is sent to the bucket of another cluster');
  t.same(errors, [AWAY.message, OTHER.message]);
  faults.compare = null;
  await objects.delete('a');
  t.same(used, ['delete']);
  faults.compare = OTHER;
  await objects.delete('a');
  t.same(used, ['delete', 'delete'], 'compared once');
});
