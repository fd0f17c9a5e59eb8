/** A process that writes much to its stderr is read at a bounded rate, and its last words arrive nevertheless. */
import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { collectTail } from '../../../supervisor/children/stderr-tail.ts';

const BYTES_PER_SECOND = 65_536;

for (const [name, chunkBytes, costBytes] of [
  ['much', 1_024, 1_024],
  ['single bytes', 1, 256],
] as const) {
  t.test(`${name} on stderr: read no faster than the limit, and to its end when the process has ended`, async (t) => {
    const stream = new PassThrough({ highWaterMark: 2 ** 24 });
    let reads = 0;
    const startedAt = performance.now();
    const tail = collectTail(Promise.resolve(stream));
    await turn();
    stream.on('data', () => {
      reads += 1;
    });
    const written = 1_000;
    for (let n = 0; n < written; n += 1) stream.write(Buffer.alloc(chunkBytes, 'x'));
    for (let n = 0; n < 20; n += 1) await turn();
    // A second's bytes at once, and then as many as the time allows.
    const seconds = 1 + (performance.now() - startedAt) / 1_000;
    t.ok(reads <= (seconds * BYTES_PER_SECOND) / costBytes + 1, `${reads} reads`);
    stream.end('last words');
    await tail.waitForEnd();
    t.equal(reads, written + 1);
    t.match(tail.text(), /xlast words$/);
  });
}
