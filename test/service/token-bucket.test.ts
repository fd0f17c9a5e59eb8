/** Token buckets: what they hold, how they refill, and how many are kept. */
import t from 'tap';
import { perMinute, TokenBucket, TokenBuckets } from '../../service/timing/token-bucket.ts';

t.test('a full bucket allows a burst, then its rate', async (t) => {
  let now = 0;
  const bucket = new TokenBucket({ burst: 3, perSecond: 2 }, () => now);
  t.same([bucket.consume(), bucket.consume(), bucket.consume(), bucket.consume()], [true, true, true, false]);
  t.equal(bucket.remaining(), 0);
  t.equal(bucket.secondsUntil(1), 1);
  t.equal(bucket.secondsUntil(3), 2);
  now += 499;
  t.notOk(bucket.consume(), 'a part of a token is not enough');
  now += 1;
  t.ok(bucket.consume());
  now += 60_000;
  t.equal(bucket.remaining(), 3, 'a bucket holds no more than its burst');
});

t.test('time in which a bucket is full gives no tokens', async (t) => {
  let now = 0;
  const consumed = new TokenBucket({ burst: 3, perSecond: 1 }, () => now);
  const overdrawn = new TokenBucket({ burst: 3, perSecond: 1 }, () => now);
  now += 60_000;
  t.same([consumed.consume(3), consumed.consume()], [true, false]);
  t.same([overdrawn.overdraw(2), overdrawn.overdraw(1)], [true, false]);
});

t.test('a refund gives back one token, and never more than the bucket holds', async (t) => {
  const bucket = new TokenBucket({ burst: 2, perSecond: 0.001 }, () => 0);
  bucket.refund();
  t.equal(bucket.remaining(), 2);
  bucket.consume();
  bucket.consume();
  bucket.refund();
  t.same([bucket.consume(), bucket.consume()], [true, false]);
});

t.test('an overdrawn bucket is in debt until it has refilled', async (t) => {
  let now = 0;
  const bucket = new TokenBucket({ burst: 100, perSecond: 100 }, () => now);
  t.ok(bucket.overdraw(99));
  t.notOk(bucket.overdraw(101), 'the debt is 100');
  now += 1_000;
  t.notOk(bucket.overdraw(0));
  now += 10;
  t.ok(bucket.overdraw(0));
});

t.test('a rate per minute can be used up at once', async (t) => {
  let now = 0;
  const bucket = new TokenBucket(perMinute(60), () => now);
  t.ok(bucket.consume(60));
  t.notOk(bucket.consume());
  t.equal(bucket.secondsUntil(60), 60);
  now += 1_000;
  t.ok(bucket.consume());
  t.notOk(new TokenBucket(perMinute(0), () => now).consume());
});

t.test('keys have buckets of their own, and the one unused for the longest time is dropped first', async (t) => {
  const buckets = new TokenBuckets({ burst: 1, perSecond: 0.001 }, () => 0);
  t.ok(buckets.get('first').consume());
  t.ok(buckets.get('second').consume());
  t.notOk(buckets.get('first').consume());
  for (let index = 0; index < 49_999; index += 1) buckets.get(`other ${index}`);
  t.notOk(buckets.get('first').consume(), 'it was used after the second');
  t.ok(buckets.get('second').consume(), 'the second was dropped and starts full');
});
