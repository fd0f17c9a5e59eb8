/** A plugin that writes a lot is read in turns with the others, and no faster than its output bucket allows. */
import { PassThrough } from 'node:stream';
import t, { type Test } from 'tap';
import { limits, MIB } from '../../../sdk/contract/limits.ts';
import { perSecond, TokenBucket } from '../../../service/timing/token-bucket.ts';
import { ChildMessageReader } from '../../../supervisor/children/child-message-reader.ts';
import { encodedFrame } from '../../sandbox-child/encoded-frame.ts';

function frames(count: number, message: object): Buffer {
  const frame = encodedFrame({ jsonrpc: '2.0', ...message });
  return Buffer.concat(Array.from({ length: count }, () => frame));
}
const line = (chars: number): object => ({ method: 'log', params: { message: 'x'.repeat(chars) } });
const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

/** Long enough that a timer cannot hide the pause after it. Milliseconds. */
const HANDLING_MS = 10;
/** Timers may end up to a millisecond early. */
const TIMER_SLACK_MS = 1;

interface Reading {
  readonly input: PassThrough;
  readonly reader: ChildMessageReader;
  messages: number;
}
function read(test: Test, bucket?: TokenBucket): Reading {
  const input = new PassThrough({ highWaterMark: 2 ** 24 });
  const endRequest = () => true;
  const reader = new ChildMessageReader(input, endRequest, (reason) => test.fail(reason));
  const reading: Reading = { input, reader, messages: 0 };
  if (bucket) reader.chargeOutputTo(bucket);
  reader.listen(() => {
    reading.messages += 1;
  });
  test.teardown(() => reader.dispose());
  return reading;
}

t.test('output beyond the bucket waits, and nothing is lost', async (t) => {
  const clock = { now: 0 };
  const reading = read(t, new TokenBucket(perSecond(limits.outputBytesPerSecond), () => clock.now));
  reading.input.write(frames(5_000, line(10)));
  while (reading.messages < 2_048) await turns(1);
  await turns(200);
  t.equal(reading.messages, 2_048, 'of short lines, a quarter of a megabyte');
  while (reading.messages < 5_000) {
    clock.now += 10;
    await turns(1);
  }
});

t.test('a bucket is its plugin’s: the next child has what the last one left', async (t) => {
  const bucket = new TokenBucket(perSecond(limits.outputBytesPerSecond), () => 0);
  const first = read(t, bucket);
  first.input.write(frames(2_000, line(10)));
  while (first.messages < 2_000) await turns(1);
  const second = read(t, bucket);
  second.input.write(frames(2_000, line(10)));
  while (second.messages < 48) await turns(1);
  await turns(200);
  t.equal(second.messages, 48);
});

t.test('a long line costs more than a short one, and a response nothing', async (t) => {
  const long = read(t, new TokenBucket(perSecond(limits.outputBytesPerSecond), () => 0));
  long.input.write(frames(200, line(8_000)));
  const responses = read(t, new TokenBucket(perSecond(limits.outputBytesPerSecond), () => 0));
  responses.input.write(frames(10_000, { id: 1, result: null }));
  while (responses.messages < 10_000) await turns(1);
  t.equal(long.messages, 33);
});

t.test('a frame that arrives byte by byte is read in turns', async (t) => {
  const reading = read(t);
  let pieces = 0;
  reading.input.on('data', () => {
    pieces += 1;
  });
  const bytes = frames(1, line(500));
  for (const byte of bytes) reading.input.write(Buffer.from([byte]));
  await turns(1);
  // Two turns of 32, and 32 more after each pause of this process, which begins another turn.
  t.ok(pieces < bytes.byteLength / 2, `${pieces} of ${bytes.byteLength} pieces were read in the first turn`);
  while (reading.messages < 1) await turns(1);
  t.equal(pieces, bytes.byteLength);
});

t.test('large messages are read one at a time, and the event loop rests after each', async (t) => {
  const message = frames(1, { id: 1, method: 'hostCall', params: { text: 'x'.repeat(3 * MIB) } });
  let turn = 0;
  const handled: { readonly turn: number; readonly startedAt: number; readonly endedAt: number }[] = [];
  const readers = Array.from({ length: 10 }, () => {
    const input = new PassThrough({ highWaterMark: 2 ** 24 });
    const reader = new ChildMessageReader(
      input,
      () => true,
      (reason) => t.fail(reason),
    );
    reader.listen(() => {
      const startedAt = performance.now();
      while (performance.now() < startedAt + HANDLING_MS);
      handled.push({ turn, startedAt, endedAt: performance.now() });
    });
    t.teardown(() => reader.dispose());
    return input;
  });
  for (const input of readers) input.write(Buffer.concat([message, message]));
  while (handled.length < 2 * readers.length) {
    await turns(1);
    turn += 1;
  }
  t.equal(new Set(handled.map((one) => one.turn)).size, handled.length, 'each in another turn');
  const rests = handled.slice(1).map(({ startedAt }, index) => startedAt - (handled[index]?.endedAt ?? 0));
  t.ok(Math.min(...rests) >= HANDLING_MS - TIMER_SLACK_MS, `the shortest rest took ${Math.min(...rests)} ms`);
});

t.test('a large call costs more than a small one', async (t) => {
  const reading = read(t, new TokenBucket(perSecond(limits.outputBytesPerSecond), () => 0));
  reading.input.write(frames(8, { id: 1, method: 'hostCall', params: { text: 'x'.repeat(MIB) } }));
  while (reading.messages < 4) await turns(1);
  await turns(200);
  t.equal(reading.messages, 4, 'a quarter of a megabyte is a sixteenth of them');
});

t.test('the body of a signature that is verified costs less than other bytes', async (t) => {
  const body = new Uint8Array(4_000_000);
  const write = (member: string, args: readonly unknown[], count: number): Reading => {
    const reading = read(t, new TokenBucket(perSecond(limits.outputBytesPerSecond), () => 0));
    reading.input.write(frames(count, { id: 1, method: 'hostCall', params: { member, args } }));
    return reading;
  };
  const verified = write('secrets.verify', ['GitHub', {}, body], 18);
  const nested = write('secrets.verify', ['GitHub', {}, { body }], 3);
  const stored = write('media.put', [body], 3);
  while (verified.messages < 17) await turns(1);
  await turns(200);
  t.equal(verified.messages, 17, 'a quarter of a megabyte is a 256th of them');
  t.equal(nested.messages, 2);
  t.equal(stored.messages, 2, 'what is stored costs a sixteenth');
});
