/** A plugin that says much at once is heard in turns, and not more often than it may. */
import { PassThrough } from 'node:stream';
import t, { type Test } from 'tap';
import { encodeFrame, frameLength, type Message } from '../../../sandbox-child/frame.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { FrameReader } from '../../../supervisor/children/frame-reader.ts';
import { Allowance } from '../../../supervisor/children/output-token-bucket.ts';
import { awaitTurn } from '../../../supervisor/children/read-turns.ts';

function frames(count: number, message: Message): Buffer {
  const frame = encodeFrame(message, (bytes) => Buffer.alloc(bytes));
  return Buffer.concat(Array.from({ length: count }, () => frame.subarray(0, frameLength(frame))));
}
const line = (chars: number): Message => ({ method: 'log', params: { message: 'x'.repeat(chars) } });
const looks = async (count: number): Promise<void> => {
  for (let look = 0; look < count; look += 1) await new Promise((resolve) => setImmediate(resolve));
};

interface Listener {
  readonly input: PassThrough;
  readonly reader: FrameReader;
  heard: number;
}
function listen(test: Test, allowance?: Allowance): Listener {
  const input = new PassThrough({ highWaterMark: 2 ** 24 });
  const reader = new FrameReader(
    input,
    () => {
      listener.heard += 1;
    },
    (reason) => test.fail(reason),
  );
  const listener: Listener = { input, reader, heard: 0 };
  if (allowance) reader.allow(allowance);
  test.teardown(() => reader.stop());
  return listener;
}

t.test('what is said beyond the allowance waits, and nothing is lost', async (t) => {
  const clock = { now: 0 };
  const listener = listen(t, new Allowance(limits.saidBytesPerSecond, () => clock.now));
  listener.input.write(frames(5_000, line(10)));
  while (listener.heard < 2_048) await looks(1);
  await looks(200);
  t.equal(listener.heard, 2_048, 'of short lines, a quarter of a megabyte');
  while (listener.heard < 5_000) {
    clock.now += 10;
    await looks(1);
  }
});

t.test('an allowance is its plugin’s: the next child has what the last one left', async (t) => {
  const allowance = new Allowance(limits.saidBytesPerSecond, () => 0);
  const first = listen(t, allowance);
  first.input.write(frames(2_000, line(10)));
  while (first.heard < 2_000) await looks(1);
  const second = listen(t, allowance);
  second.input.write(frames(2_000, line(10)));
  while (second.heard < 48) await looks(1);
  await looks(200);
  t.equal(second.heard, 48);
});

t.test('a long line takes more of it than a short one; an answer takes nothing', async (t) => {
  const long = listen(t, new Allowance(limits.saidBytesPerSecond, () => 0));
  long.input.write(frames(200, line(8_000)));
  const answers = listen(t, new Allowance(limits.saidBytesPerSecond, () => 0));
  answers.input.write(frames(10_000, { id: 1, result: null }));
  while (answers.heard < 10_000) await looks(1);
  t.equal(long.heard, 33);
});

t.test('one turn at a time, in the order they were asked for', async (t) => {
  const order: string[] = [];
  const over = new Promise<void>((resolve) => {
    for (const name of ['a', 'b', 'c']) {
      awaitTurn(() => {
        order.push(name);
        setImmediate(() => order.push(`after ${name}`));
        if (name === 'c') setImmediate(resolve);
      });
    }
  });
  t.same(order, [], 'never at once');
  await over;
  t.same(order, ['a', 'after a', 'b', 'after b', 'c', 'after c'], 'the loop turns between them');
});
