/** A plugin that writes a lot is read in turns with the others, and no faster than its output bucket allows. */
import { PassThrough } from 'node:stream';
import t, { type Test } from 'tap';
import { limits } from '../../../sdk/contract/limits.ts';
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
  t.ok(pieces <= 64, `${pieces} pieces were read in the first turn`);
  while (reading.messages < 1) await turns(1);
  t.equal(pieces, bytes.byteLength);
});
