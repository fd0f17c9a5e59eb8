/** The supervisor's end of the wire against a peer that keeps no rule. */
import { PassThrough } from 'node:stream';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import {
  encodeFrame,
  FRAME_MAX_BYTES,
  FRAME_TO_CHILD_MAX_BYTES,
  frameLength,
  type Message,
} from '../../../sandbox-child/frame.ts';
import { ChildError } from '../../../supervisor/children/child-errors.ts';
import { Wire, WireRefusal } from '../../../supervisor/children/wire.ts';
import { errorOf } from './jailed-child.ts';

const frame = (message: Message): Buffer => {
  const buffer = encodeFrame(message, (bytes) => Buffer.alloc(bytes));
  return buffer.subarray(0, frameLength(buffer));
};

interface Peer {
  readonly wire: Wire;
  /** What the supervisor reads. */
  readonly input: PassThrough;
  readonly output: PassThrough;
  readonly violations: string[];
  readonly notices: string[];
  answers: number;
}

function connect(answer: (method: string, params: unknown) => Promise<unknown> = () => Promise.resolve(null)): Peer {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const peer = { input, output, violations: [] as string[], notices: [] as string[], answers: 0 };
  const wire = new Wire(input, output, {
    request: (method, params) => answer(method, params),
    notice: (method) => peer.notices.push(method),
    violation: (reason) => peer.violations.push(reason),
  });
  return Object.assign(peer, { wire });
}

const header = (rest: number, head: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(rest, 0);
  bytes.writeUInt32LE(head, 4);
  return bytes;
};

t.test('requests are answered, out of order and in pieces', async (t) => {
  const { wire, input } = connect();
  const calls = [wire.request('a', {}), wire.request('b', {})];
  const bytes = Buffer.concat([frame({ id: 2, result: 'second' }), frame({ id: 1, result: 'x'.repeat(2_000) })]);
  for (const byte of bytes) input.write(Buffer.from([byte]));
  t.same(await Promise.all(calls), ['x'.repeat(2_000), 'second']);
});

const violations: Readonly<Record<string, Buffer>> = {
  'a frame that says it is too large': header(FRAME_MAX_BYTES + 1, 1),
  'a frame that says it is 4 GB': header(0xffffffff, 1),
  'a head longer than its frame': header(10, 7),
  'an empty frame': header(4, 0),
  'a head that is no JSON': Buffer.concat([header(5, 1), Buffer.from('{')]),
  'an answer to nothing': frame({ id: 1, result: null }),
  'an answer without an id': frame({ result: null }),
  'an id that is text': frame({ id: '1' as unknown as number, method: 'x' }),
  'an id that is half a number': frame({ id: 1.5, method: 'x' }),
  'a negative id': frame({ id: -1, method: 'x' }),
  'a list': Buffer.concat([header(6, 2), Buffer.from('[]')]),
};
for (const [name, bytes] of Object.entries(violations)) {
  t.test(name, async (t) => {
    const peer = connect();
    peer.input.write(bytes);
    peer.input.write(frame({ method: 'after' }));
    await turn();
    await turn();
    t.equal(peer.violations.length, 1);
    t.same(peer.notices, [], 'nothing is read after it');
    await t.rejects(peer.wire.request('x', {}), errorOf('dead'));
  });
}

t.test('a violation fails what is waiting', async (t) => {
  const { wire, input } = connect();
  const waiting = t.rejects(wire.request('x', {}), errorOf('dead'));
  input.write(header(0xffffffff, 1));
  await waiting;
});

t.test('half a frame costs what was sent of it, and no more', async (t) => {
  const { input, violations } = connect();
  const before = process.memoryUsage().arrayBuffers;
  input.write(Buffer.concat([header(FRAME_MAX_BYTES, 100), Buffer.from('{')]));
  await turn();
  t.ok(process.memoryUsage().arrayBuffers - before < FRAME_MAX_BYTES / 2);
  t.same(violations, []);
});

t.test('answers to a call that is over, and second answers, are dropped', async (t) => {
  const { wire, input, violations } = connect();
  const call = wire.request('x', {});
  input.write(Buffer.concat([frame({ id: 1, result: 1 }), frame({ id: 1, result: 2 })]));
  t.equal(await call, 1);
  await turn();
  t.same(violations, []);
});

t.test('only what was written for the child crosses as an error', async (t) => {
  const { input, output } = connect((method) =>
    Promise.reject(method === 'known' ? new WireRefusal('denied', 'not yours') : new Error('/secret/path')),
  );
  input.write(Buffer.concat([frame({ id: 1, method: 'known' }), frame({ id: 2, method: 'unknown' })]));
  let sent = '';
  output.on('data', (chunk) => {
    sent += chunk;
  });
  await sleep(20);
  t.match(sent, '{"code":"denied","message":"not yours"}');
  t.match(sent, '{"code":"internal"');
  t.notMatch(sent, 'secret');
});

t.test('100,000 requests at once are refused beyond the bound, and the memory stays', async (t) => {
  let asked = 0;
  const { input, output, violations } = connect(() => {
    asked += 1;
    return new Promise(() => undefined);
  });
  output.resume();
  const flood = Buffer.concat(Array.from({ length: 1_000 }, (_, id) => frame({ id: id + 1, method: 'hostCall' })));
  for (let batch = 0; batch < 3; batch += 1) input.write(flood);
  await sleep(50);
  t.equal(asked, 128);
  t.same(violations, []);
});

t.test('a flood is read at 10,000 frames a second, and the event loop goes on', async (t) => {
  const { input, notices } = connect();
  const flood = Buffer.concat(Array.from({ length: 1_000 }, () => frame({ method: 'log' })));
  const started = performance.now();
  for (let batch = 0; batch < 5; batch += 1) input.write(flood);
  while (notices.length < 5_000) await sleep(5);
  const ms = performance.now() - started;
  t.ok(ms >= 250, `5,000 frames took ${ms.toFixed(0)} ms`);
});

t.test('a peer that does not read is ended', async (t) => {
  const { wire, violations } = connect();
  const calls = Array.from({ length: 10 }, () => wire.request('x', 'x'.repeat(2_000_000)).catch((error) => error));
  await turn();
  t.equal(violations.length, 1);
  t.match(await Promise.all(calls), Array(10).fill({ kind: 'dead' }));
});

t.test('a message too large for the wire fails that call alone', async (t) => {
  const { wire, violations } = connect();
  await t.rejects(wire.request('x', 'x'.repeat(FRAME_TO_CHILD_MAX_BYTES)), errorOf('too_large'));
  await t.rejects(wire.request('x', { big: 1n }), errorOf('broken'));
  t.same(violations, []);
  wire.close(new ChildError('dead', 'over'));
});

t.test('one that says much at once is heard in turns, whole and in order', async (t) => {
  const [much, little] = [connect(), connect()];
  const heardBefore: number[] = [];
  const said = Array.from({ length: 300 }, (_, n) => frame({ method: `note-${n}` }));
  const tail = frame({ method: 'note-300' });
  much.input.write(Buffer.concat([...said, tail.subarray(0, 7)]));
  little.input.on('data', () => heardBefore.push(much.notices.length));
  await turn();
  little.input.write(frame({ method: 'me too' }));
  much.input.write(tail.subarray(7));
  const until = Date.now() + 10_000;
  while (much.notices.length < 301 && Date.now() < until) await turn();
  t.same(
    much.notices,
    Array.from({ length: 301 }, (_, n) => `note-${n}`),
  );
  t.same(little.notices, ['me too']);
  t.ok((heardBefore[0] ?? 301) < 200, `the other was heard after ${heardBefore[0]} of them`);
  t.same(much.violations, []);
});
