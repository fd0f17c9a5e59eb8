/** The supervisor's end of a child's connection against a peer that violates the protocol. */
import { PassThrough, Writable } from 'node:stream';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { FRAME_MAX_BYTES, FRAME_TO_CHILD_MAX_BYTES, FrameBuffer, HEADER_BYTES } from '../../../sandbox-child/frame.ts';
import { DELTAS_UNREAD_MAX } from '../../../sandbox-child/json-rpc.ts';
import { decodeMessage } from '../../../sandbox-child/message.ts';
import { limits, MIB } from '../../../sdk/contract/limits.ts';
import { waitForLoopTurn } from '../../../service/timing/loop-turns.ts';
import { perSecond, TokenBucket } from '../../../service/timing/token-bucket.ts';
import type { UncountedTime } from '../../../supervisor/calls/plugin-call.ts';
import { AnswerDeltas } from '../../../supervisor/children/answer-deltas.ts';
import { ChildCalls } from '../../../supervisor/children/child-calls.ts';
import { ChildConnection, SentCancellation } from '../../../supervisor/children/child-connection.ts';
import { ChildError, HostCallRefusal, UNEXPECTED } from '../../../supervisor/children/child-errors.ts';
import { Deadline } from '../../../supervisor/children/deadline.ts';
import type { CpuDemand } from '../../../supervisor/jail/watched-process.ts';
import { SecretMask } from '../../../supervisor/records/secret-mask.ts';
import { collectGarbage } from '../../fixtures/collect-garbage.ts';
import { eventually } from '../../runner/eventually.ts';
import type { Teardown } from '../../runner/harness.ts';
import { amount, seed } from '../../runner/soak.ts';
import { encodedFrame } from '../../sandbox-child/encoded-frame.ts';
import { errorOf } from './jailed-child.ts';

const NO_DEMAND: CpuDemand = { hadMs: 0, waitedMs: 0, isRunnable: false };
const frame = (message: object): Buffer => encodedFrame({ jsonrpc: '2.0', ...message });
const log = (params: unknown): Buffer => frame({ method: 'log', params });

/** So much that nothing has to wait for it. */
const MUCH_OUTPUT = new TokenBucket(perSecond(1_024 * MIB));

interface Peer {
  readonly connection: ChildConnection;
  /** The stream that the supervisor reads. */
  readonly input: PassThrough;
  /** The stream that the supervisor writes to. */
  readonly output: Writable;
  /** Chunks that the supervisor has sent since the last call of `sentTo`. */
  readonly sent: Buffer[];
  readonly violations: string[];
  /** Params of the log lines. */
  readonly lines: unknown[];
}

function connect(
  answer: (params: unknown) => Promise<unknown> = () => Promise.resolve(null),
  { reads = true }: { reads?: boolean } = {},
): Peer {
  const input = new PassThrough();
  const peer = { input, sent: [] as Buffer[], violations: [] as string[], lines: [] as unknown[] };
  const output = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      // Copied, because the writer reuses the memory of a frame that was written synchronously.
      peer.sent.push(Buffer.from(chunk));
      if (reads) done();
    },
  });
  const connection = new ChildConnection(input, output, {
    onRequest: (_method, params) => answer(params),
    onNotification: (_method, params) => peer.lines.push(params),
    onViolation: (reason) => peer.violations.push(reason),
  });
  return Object.assign(peer, { connection, output });
}

/** Returns the messages sent to the child. */
function sentTo({ sent }: Peer): Record<string, unknown>[] {
  const frames = new FrameBuffer(FRAME_TO_CHILD_MAX_BYTES);
  const messages: Record<string, unknown>[] = [];
  for (const chunk of sent.splice(0)) frames.push(chunk);
  for (let next = frames.readFrame(decodeMessage); next !== null; next = frames.readFrame(decodeMessage))
    messages.push(next);
  return messages;
}

/** Bytes of the objects that are reachable. Long texts are outside the heap. */
async function measureReachable(): Promise<number> {
  const { heapUsed, external } = await collectGarbage();
  return heapUsed + external;
}

/** Lengths of a frame's content and of its head. */
const prefix = (content: number, head: number): Buffer => {
  const bytes = Buffer.alloc(HEADER_BYTES + 4);
  bytes.writeUInt32LE(content, 0);
  bytes.writeUInt32LE(head, HEADER_BYTES);
  return bytes;
};
const forge = (head: string): Buffer =>
  Buffer.concat([prefix(Buffer.byteLength(head) + 4, Buffer.byteLength(head)), Buffer.from(head)]);

t.test('requests are answered, out of order and in pieces', async (t) => {
  const { connection, input } = connect();
  const calls = [connection.request('a', {}), connection.request('b', {})];
  const bytes = Buffer.concat([frame({ id: 1, result: 'second' }), frame({ id: 0, result: 'x'.repeat(2_000) })]);
  for (const byte of bytes) input.write(Buffer.from([byte]));
  t.same(await Promise.all(calls), ['x'.repeat(2_000), 'second']);
});

t.test('messages are handled in the order they arrive in, before the answers behind them', async (t) => {
  const { connection, input, lines } = connect();
  const call = connection.request('x', {}).then(() => lines.length);
  input.write(Buffer.concat([log(1), log(2), frame({ id: 0, result: 1 }), log(3)]));
  t.ok((await call) >= 2);
  t.same(lines, [1, 2, 3]);
});

const request = { method: 'hostCall', params: {} };
const violations: Readonly<Record<string, Buffer>> = {
  'a frame that says it is too large': prefix(FRAME_MAX_BYTES + 1, 1),
  'a frame that says it is 4 GB': prefix(0xffffffff, 1),
  'a head longer than its frame': Buffer.concat([prefix(10, 7), Buffer.alloc(6)]),
  'an empty frame': Buffer.alloc(HEADER_BYTES),
  'a frame with an empty head': prefix(4, 0),
  'a head that is no JSON': forge('{'),
  'a list': forge('[]'),
  'a batch': forge(JSON.stringify([{ jsonrpc: '2.0', ...request, id: 1 }])),
  'a number': forge('1'),
  null: forge('null'),
  'no version': forge(JSON.stringify({ ...request, id: 1 })),
  'another version': forge(JSON.stringify({ jsonrpc: '1.0', ...request, id: 1 })),
  'a version that is a number': forge(JSON.stringify({ jsonrpc: 2, ...request, id: 1 })),
  'a response to no request': frame({ id: 0, result: null }),
  'a response without an id': frame({ result: null }),
  'a response whose id is null': frame({ id: null, error: { code: 1, message: 'x' } }),
  'a response whose id is text': frame({ id: '0', result: null }),
  'a request whose id is text': frame({ ...request, id: '1' }),
  'a request whose id is half a number': frame({ ...request, id: 1.5 }),
  'a request whose id is negative': frame({ ...request, id: -1 }),
  'a request whose id is null': frame({ ...request, id: null }),
  'a request whose id is too large': forge('{"jsonrpc":"2.0","method":"hostCall","id":1e300}'),
  'a request whose id is a list': frame({ ...request, id: [1] }),
  'a method that is no text': frame({ method: 1, id: 1 }),
  'a method that is null': frame({ method: null, id: 1 }),
  'an unknown request': frame({ method: 'x', id: 1 }),
  'an unknown notification': frame({ method: 'x' }),
  'a notification sent as a request': frame({ method: 'log', id: 1 }),
  'a request sent as a notification': frame({ method: 'hostCall' }),
  'a method of the supervisor': frame({ method: 'load', id: 1 }),
  'a method of the prototype': frame({ method: '__proto__', id: 1 }),
  'a constructor': frame({ method: 'constructor' }),
  'a cancellation': frame({ method: '$/cancelRequest', params: { id: 1 } }),
  'a cancellation of nothing': frame({ method: '$/cancelRequest' }),
  progress: frame({ method: '$/progress', params: { token: 1, value: 1 } }),
  'progress without params': frame({ method: '$/progress' }),
  'progress in a list': frame({ method: '$/progress', params: ['token', 1] }),
  'progress as a request': frame({ method: '$/progress', id: 1, params: { token: 'x', value: 1 } }),
  'a delta that was read': frame({ method: 'deltaRead', params: { invocationId: 'x' } }),
  'a trace': frame({ method: '$/setTrace', params: { value: 'verbose' } }),
  'a logged trace': frame({ method: '$/logTrace', params: { message: 'x' } }),
  'JSON that nests too deeply': forge(`{"jsonrpc":"2.0","method":"log","params":${'['.repeat(200)}${']'.repeat(200)}}`),
};
for (const [name, bytes] of Object.entries(violations)) {
  t.test(name, async (t) => {
    const peer = connect(() => Promise.reject(new Error('nothing is asked')));
    peer.input.write(bytes);
    peer.input.write(log('after'));
    await turn();
    await turn();
    t.equal(peer.violations.length, 1);
    t.same(peer.lines, [], 'nothing is read after it');
    t.same(sentTo(peer), [], 'nothing is answered');
    await t.rejects(peer.connection.request('x', {}), errorOf('dead'));
  });
}

const malformedResponses: Readonly<Record<string, object>> = {
  'without result and error': { id: 0 },
  'whose error is text': { id: 0, error: 'x' },
  'whose error is null': { id: 0, error: null },
  'whose error has no code': { id: 0, error: { message: 'x' } },
  'whose error has no message': { id: 0, error: { code: 1 } },
  'to a request that comes later': { id: 1, result: 1 },
};
for (const [name, response] of Object.entries(malformedResponses)) {
  t.test(`a response ${name} ends the connection`, async (t) => {
    const { connection, input, violations } = connect();
    const waiting = t.rejects(connection.request('x', {}), errorOf('dead'));
    input.write(frame(response));
    await waiting;
    t.equal(violations.length, 1);
  });
}

for (const method of [{ toString: false }, [[]], null, 7]) {
  t.test(`a method that is ${JSON.stringify(method)} ends the connection`, async (t) => {
    const { input, violations } = connect();
    input.write(frame({ method, params: {} }));
    await turn();
    t.match(violations, [/malformed notification whose method is of the type (object|number)/]);
    t.equal(violations.length, 1);
  });
}

t.test('random messages are handled or refused, and never a crash', async (t) => {
  const field = fc.oneof(
    fc.jsonValue(),
    // Nothing that a child sends may be used as an object with the usual methods.
    fc.constantFrom({ toString: false }, { toJSON: 1, valueOf: null }),
    fc.constantFrom('2.0', 'log', 'hostCall', '$/cancelRequest', '__proto__', 0, 1),
  );
  const message = fc.record(
    {
      jsonrpc: fc.oneof({ weight: 5, arbitrary: fc.constant('2.0') }, field),
      id: field,
      method: field,
      params: field,
      result: field,
      error: field,
    },
    { requiredKeys: ['jsonrpc'] },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 5 }), async (messages) => {
      const { connection, input, violations } = connect();
      connection.request('x', {}).catch(() => undefined);
      for (const each of messages) input.emit('data', encodedFrame(each));
      await turn();
      connection.close(new ChildError('dead', 'over'));
      return violations.length <= 1 && !violations.includes(UNEXPECTED);
    }),
    { seed, numRuns: amount({ quick: 300, soak: 100_000 }) },
  );
  t.pass();
});

t.test('a fault of the supervisor ends the child whose message met it, and nothing else', async (t) => {
  const { error } = console;
  const shown: unknown[] = [];
  console.error = (fault) => shown.push(fault);
  t.teardown(() => {
    console.error = error;
  });
  const fault = new Error('a fault');
  const reader = connect();
  reader.connection.chargeOutputTo({
    overdraw: () => {
      throw fault;
    },
  } as unknown as TokenBucket);
  reader.input.emit('data', log('x'));
  t.same(reader.violations, [UNEXPECTED]);
  const writer = connect();
  writer.output.write = () => {
    throw fault;
  };
  writer.input.emit('data', frame({ id: 0, method: 'hostCall', params: {} }));
  await turn();
  t.same(writer.violations, [UNEXPECTED]);
  t.same(shown, [fault, fault]);
});

t.test('a violation fails what is waiting', async (t) => {
  const { connection, input } = connect();
  const waiting = t.rejects(connection.request('x', {}), errorOf('dead'));
  input.write(prefix(0xffffffff, 1));
  await waiting;
});

t.test('half a frame costs what was sent of it, and no more', async (t) => {
  const { input, violations } = connect();
  const before = process.memoryUsage().arrayBuffers;
  input.write(Buffer.concat([prefix(FRAME_MAX_BYTES, 100), Buffer.from('{')]));
  await turn();
  t.ok(process.memoryUsage().arrayBuffers - before < FRAME_MAX_BYTES / 2);
  t.same(violations, []);
});

t.test('a call that is over may be answered once, and a second answer to any call ends the connection', async (t) => {
  const { connection, input, violations } = connect();
  const calls = new ChildCalls(connection, { kill: t.fail, cpuDemand: () => NO_DEMAND });
  const gone = new AbortController();
  const options = { invocationId: 'x', deadlineAt: Date.now() + 60_000, signal: gone.signal };
  const abandoned = calls.run({ kind: 'tools', name: 'x' }, {}, options);
  gone.abort();
  await t.rejects(abandoned, errorOf('aborted'));
  input.write(frame({ id: 0, result: { outcome: 'answered', answer: 'late' } }));
  await turn();
  t.same(violations, []);
  const call = connection.request('x', {});
  input.write(Buffer.concat([frame({ id: 1, result: 1 }), frame({ id: 1, result: 2 })]));
  t.equal(await call, 1);
  t.same(violations, ['a response to no request']);
});

t.test('deltas reach their call, in order and before its answer; others are dropped', async (t) => {
  const peer = connect();
  const [arrived, kills] = [[] as unknown[], [] as string[]];
  const calls = new ChildCalls(peer.connection, { kill: (why) => void kills.push(why), cpuDemand: () => NO_DEMAND });
  const onDelta = (delta: unknown) => async () => {
    await turn();
    arrived.push(delta);
  };
  const deadlineAt = Date.now() + 60_000;
  const target = { kind: 'providers', name: 'x' } as const;
  const run = (invocationId: string) => calls.run(target, {}, { invocationId, deadlineAt, onDelta });
  const delta = (token: string, value: unknown) => frame({ method: '$/progress', params: { token, value } });
  const answered = { outcome: 'answered', answer: 'whole' };
  const first = run('first').then((outcome) => [outcome, [...arrived]]);
  const frames = [delta('first', 1), delta('another', 2), delta('first', 3), frame({ id: 0, result: answered })];
  peer.input.write(Buffer.concat(frames));
  t.same(await first, [answered, [1, 3]]);
  t.match(sentTo(peer), [
    { method: 'invoke', params: { wantsDeltas: true } },
    { method: 'deltaRead', params: { invocationId: 'first' } },
    { method: 'deltaRead', params: { invocationId: 'first' } },
  ]);
  const flooded = run('second');
  flooded.catch(() => undefined);
  peer.input.write(Buffer.concat(Array.from({ length: DELTAS_UNREAD_MAX + 1 }, () => delta('second', 'x'))));
  await turn();
  t.same(kills, ['it broke the protocol: more deltas than it may send ahead']);
  peer.connection.close(new ChildError('dead', 'it was killed'));
  await t.rejects(flooded, errorOf('dead'));
});

t.test('a call whose answer waits for its reader is not taken for the one that hangs', async (t) => {
  // Timers of deadlines keep no process alive.
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const { connection, input } = connect();
  const killed = Promise.withResolvers<string>();
  let readings = 0;
  const cpuDemand = (): CpuDemand => {
    readings += 1;
    return { hadMs: readings * 40, waitedMs: 0, isRunnable: true };
  };
  const calls = new ChildCalls(connection, { kill: killed.resolve, cpuDemand });
  const reading = Promise.withResolvers<void>();
  const deadlineAt = Date.now() + 60_000;
  const answered = calls.run(
    { kind: 'providers', name: 'x' },
    {},
    { invocationId: 'answered', deadlineAt, onDelta: () => () => reading.promise },
  );
  const hung = calls.run({ kind: 'tools', name: 'hung' }, {}, { invocationId: 'hung', deadlineAt });
  const hangs = t.rejects(hung, { ...errorOf('timeout'), message: /^tools\.hung did not return/ });
  const delta = frame({ method: '$/progress', params: { token: 'answered', value: 1 } });
  input.write(Buffer.concat([delta, frame({ id: 0, result: { outcome: 'answered', answer: 'whole' } })]));
  await turn();
  const blocked = calls.run({ kind: 'tools', name: 'z' }, {}, { invocationId: 'blocked', deadlineAt: Date.now() });
  await t.rejects(blocked, {
    ...errorOf('timeout'),
    message: /^tools\.hung did not return .* tools\.z did not start$/,
  });
  t.match(await killed.promise, /^tools\.hung did not return/);
  await hangs;
  reading.resolve();
  t.match(await answered, { outcome: 'answered', answer: 'whole' });
  connection.close(new ChildError('dead', 'it was killed'));
});

t.test('deltas that wait for their turn hold only what is passed on', async (t) => {
  const peer = connect();
  peer.connection.chargeOutputTo(MUCH_OUTPUT);
  const calls = new ChildCalls(peer.connection, { kill: () => undefined, cpuDemand: () => NO_DEMAND });
  const reading = Promise.withResolvers<void>();
  const deltas = new AnswerDeltas(new SecretMask(), () => reading.promise, undefined);
  const options = { invocationId: 'a', deadlineAt: Date.now() + 60_000, onDelta: deltas.receive };
  const ended = t.rejects(calls.run({ kind: 'providers', name: 'x' }, {}, options), errorOf('dead'));
  const before = await measureReachable();
  for (let sent = 0; sent < DELTAS_UNREAD_MAX; sent += 1) {
    const value = { text: 'a', junk: 'x'.repeat(2 * MIB) };
    peer.input.write(frame({ method: '$/progress', params: { token: 'a', value } }));
    await turn();
  }
  peer.input.write(log('behind them'));
  await eventually(async () => peer.lines.length === 1);
  const held = (await measureReachable()) - before;
  t.ok(held < 4 * MIB, `${held} bytes of 32 MiB`);
  // An unresolved promise that nothing refers to would be collected, together with all that waits for it.
  reading.resolve();
  peer.connection.close(new ChildError('dead', 'it was killed'));
  await ended;
});

t.test('after its deadline, a child is killed when it computes on, and not while it has no processor', async (t) => {
  // Timers of deadlines keep no process alive.
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const target = { kind: 'tools', name: 'x' } as const;
  const killed = Promise.withResolvers<string>();
  const looping = connect();
  let readings = 0;
  const cpuDemand = (): CpuDemand => {
    readings += 1;
    return { hadMs: readings * 40, waitedMs: 0, isRunnable: true };
  };
  const process = { kill: killed.resolve, cpuDemand };
  const hung = new ChildCalls(looping.connection, process).run(
    target,
    {},
    { invocationId: 'a', deadlineAt: Date.now() },
  );
  await t.rejects(hung, errorOf('timeout'));
  t.match(await killed.promise, /took longer than/);
  looping.connection.close(new ChildError('dead', 'it was killed'));

  const kills: string[] = [];
  const starving = connect();
  const looked = Promise.withResolvers<void>();
  let looks = 0;
  const lookAt = (): CpuDemand => {
    looks += 1;
    if (looks === 8) looked.resolve();
    return NO_DEMAND;
  };
  const calls = new ChildCalls(starving.connection, { kill: (why) => void kills.push(why), cpuDemand: lookAt });
  await t.rejects(calls.run(target, {}, { invocationId: 'b', deadlineAt: Date.now() }), errorOf('timeout'));
  await looked.promise;
  starving.input.write(frame({ id: 0, result: { outcome: 'answered', answer: 'late' } }));
  await turn();
  t.same(kills, [], 'it answers when it has a processor');
  starving.connection.close(new ChildError('dead', 'it was killed'));
});

t.test('after its deadline, a child is not killed while its answer waits for the output bucket', async (t) => {
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const clock = { now: 0 };
  const peer = connect();
  peer.connection.chargeOutputTo(new TokenBucket(perSecond(1_000), () => clock.now));
  peer.input.write(log('x'.repeat(2_000)));
  await turn();
  let looks = 0;
  const cpuDemand = (): CpuDemand => {
    looks += 1;
    if (looks === 4) clock.now += 10_000;
    return { hadMs: looks * 40, waitedMs: 0, isRunnable: true };
  };
  const calls = new ChildCalls(peer.connection, { kill: t.fail, cpuDemand });
  const call = calls.run({ kind: 'tools', name: 'x' }, {}, { invocationId: 'a', deadlineAt: Date.now() });
  peer.input.write(
    Buffer.concat([frame({ id: 0, result: { outcome: 'answered', answer: 'late' } }), log('behind it')]),
  );
  await t.rejects(call, errorOf('timeout'));
  await eventually(async () => peer.lines.length === 2);
  t.ok(looks >= 4);
});

t.test('a host call that waits pauses the budget for a limited time, and a debugger without a limit', async (t) => {
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const { connection } = connect();
  const process = { kill: () => undefined, cpuDemand: () => NO_DEMAND };
  const calls = new ChildCalls(connection, process, limits, { maxMs: 10, lookEveryMs: 1_000 });
  const call = calls.run({ kind: 'tools', name: 'x' }, {}, { invocationId: 'a', deadlineAt: Date.now() + 10 });
  calls.setPaused(true);
  const resume = calls.beginHostCall('a', 'paused');
  await new Promise<void>((resolve) => new Deadline(30, resolve));
  t.equal(calls.has('a'), true, 'a debugger is attached');
  calls.setPaused(false);
  await t.rejects(call, { ...errorOf('timeout'), message: /besides 10 ms of waiting for host calls/ });
  resume();
  connection.close(new ChildError('dead', 'it was killed'));
});

/** A child that computes, and answers nothing. */
function connectHung(test: Teardown) {
  const alive = setInterval(() => undefined, 1_000);
  test.teardown(() => clearInterval(alive));
  const { connection } = connect();
  test.teardown(() => connection.close(new ChildError('dead', 'it was killed')));
  const killed = Promise.withResolvers<string>();
  let readings = 0;
  const cpuDemand = (): CpuDemand => {
    readings += 1;
    return { hadMs: readings * 40, waitedMs: 0, isRunnable: true };
  };
  const bounds = { maxMs: 600_000, lookEveryMs: 10 };
  const calls = new ChildCalls(connection, { kill: killed.resolve, cpuDemand }, limits, bounds);
  const run = (name: string, budgetMs: number) =>
    calls.run({ kind: 'tools', name }, {}, { invocationId: name, deadlineAt: Date.now() + budgetMs });
  return { calls, run, killed: killed.promise };
}

t.test('a handler that computes while a host call of it waits ends at its budget', async (t) => {
  const { calls, run, killed } = connectHung(t);
  const call = run('spin', 100);
  calls.beginHostCall('spin', 'paused');
  await t.rejects(call, { ...errorOf('timeout'), message: /^tools\.spin took longer than its/ });
  t.match(await killed, /^tools\.spin took longer than its/);
});

t.test('the reason of a hang does not name a handler that waits for a host call', async (t) => {
  const { calls, run, killed } = connectHung(t);
  const spin = run('spin', 10);
  const waiting = run('wait', 600_000);
  calls.recordStart('wait');
  calls.beginHostCall('wait', 'counted');
  await t.rejects(spin, { ...errorOf('timeout'), message: /^tools\.spin took longer than its/ });
  t.match(await killed, /^tools\.spin took longer than its/);
  waiting.catch(() => undefined);
});

const lateAnswer = frame({ id: 0, result: { outcome: 'answered', answer: 'late' } });

/** A child whose output exceeds its rate until the clock is advanced. */
async function connectThrottled(): Promise<{ readonly peer: Peer; readonly clock: { now: number } }> {
  const clock = { now: 0 };
  const peer = connect();
  peer.connection.chargeOutputTo(new TokenBucket(perSecond(1_000), () => clock.now));
  peer.input.write(log('x'.repeat(2_000)));
  await turn();
  return { peer, clock };
}

t.test(
  'after its deadline, a child that waits until its output is read is killed later than one that computes',
  async (t) => {
    const alive = setInterval(() => undefined, 1_000);
    t.teardown(() => clearInterval(alive));
    const target = { kind: 'tools', name: 'x' } as const;
    const waiting = await connectThrottled();
    let looks = 0;
    const demandLittle = (): CpuDemand => {
      looks += 1;
      // Later than without the throttle.
      if (looks === 30) waiting.clock.now += 10_000;
      return { hadMs: looks, waitedMs: 0, isRunnable: false };
    };
    const calls = new ChildCalls(waiting.peer.connection, { kill: t.fail, cpuDemand: demandLittle });
    const call = calls.run(target, {}, { invocationId: 'a', deadlineAt: Date.now() });
    waiting.peer.input.write(Buffer.concat([lateAnswer, log('behind it')]));
    await t.rejects(call, errorOf('timeout'));
    await eventually(async () => waiting.peer.lines.length === 2);
    t.ok(looks >= 30);

    const computing = (await connectThrottled()).peer;
    const killed = Promise.withResolvers<string>();
    let readings = 0;
    const demandMuch = (): CpuDemand => {
      readings += 1;
      return { hadMs: readings * 40, waitedMs: 0, isRunnable: true };
    };
    const process = { kill: killed.resolve, cpuDemand: demandMuch };
    const hung = new ChildCalls(computing.connection, process).run(
      target,
      {},
      { invocationId: 'a', deadlineAt: Date.now() },
    );
    await t.rejects(hung, errorOf('timeout'));
    await killed.promise;
    t.ok(readings < 30, `${readings} readings`);
    computing.connection.close(new ChildError('dead', 'it was killed'));
  },
);

t.test('the time for which the output of a child is throttled is added to the budgets of its calls', async (t) => {
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const { peer, clock } = await connectThrottled();
  let looks = 0;
  const cpuDemand = (): CpuDemand => {
    looks += 1;
    // The first look is in the middle of the budget, the second one at its end.
    if (looks === 2) clock.now += 10_000;
    return NO_DEMAND;
  };
  const calls = new ChildCalls(peer.connection, { kill: t.fail, cpuDemand });
  const target = { kind: 'tools', name: 'x' } as const;
  const call = calls.run(target, {}, { invocationId: 'a', deadlineAt: Date.now() + 1_000 });
  peer.input.write(lateAnswer);
  t.match(await call, { outcome: 'answered' });
  t.equal(looks, 2);
});

t.test('what the host takes longer than usual for its own answers is added to the budgets of calls', async (t) => {
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const peer = connect();
  let looks = 0;
  const cpuDemand = (): CpuDemand => {
    looks += 1;
    // The second look is at the end of the budget, to which the lateness of its first half was added.
    if (looks === 2) peer.input.write(lateAnswer);
    return NO_DEMAND;
  };
  const calls = new ChildCalls(peer.connection, { kill: t.fail, cpuDemand });
  const endFirst = calls.beginHostCall('a', 'extended');
  const endSecond = calls.beginHostCall('a', 'extended');
  const target = { kind: 'tools', name: 'x' } as const;
  const startedAt = performance.now();
  const uncounted: UncountedTime[] = [];
  const onUncounted = (time: UncountedTime) => uncounted.push(time);
  const call = calls.run(target, {}, { invocationId: 'a', deadlineAt: Date.now() + 400, onUncounted });
  t.match(await call, { outcome: 'answered' });
  t.ok(Number(uncounted[0]?.hostDelayMs) > 0, 'the chain learns it');
  t.ok(performance.now() - startedAt >= 450, 'half of the budget, and what the host takes longer than 100 ms');
  endFirst();
  endSecond();
  const { waitedMs } = calls.cpuDemand();
  t.ok(waitedMs > 0);
  t.equal(calls.cpuDemand().waitedMs, waitedMs, 'it ends with the calls');
});

t.test('an answer that waits for a turn of the event loop at the deadline counts', async (t) => {
  const budgetMs = 40;
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  const { connection, input } = connect();
  const calls = new ChildCalls(connection, { kill: t.fail, cpuDemand: () => NO_DEMAND });
  const others = Array.from({ length: 10 }, async (_, other) => {
    await waitForLoopTurn(`other ${other}`);
    const endsAt = performance.now() + budgetMs / 4;
    while (performance.now() < endsAt);
  });
  const startedAt = performance.now();
  const call = calls.run({ kind: 'tools', name: 'x' }, {}, { invocationId: 'x', deadlineAt: Date.now() + budgetMs });
  input.write(frame({ id: 0, result: { outcome: 'answered', answer: 'x'.repeat(100_000) } }));
  t.match(await call, { outcome: 'answered' });
  const tookMs = performance.now() - startedAt;
  t.ok(tookMs > budgetMs, `after ${tookMs.toFixed()} ms of ${budgetMs}`);
  await Promise.all(others);
});

t.test('the text of a failure is cut', async (t) => {
  const { connection, input } = connect();
  const calls = new ChildCalls(connection, { kill: t.fail, cpuDemand: () => NO_DEMAND });
  const call = calls.run({ kind: 'tools', name: 'x' }, {}, { invocationId: 'x', deadlineAt: Date.now() + 60_000 });
  const [message, stack] = ['m'.repeat(1_000_000), 's'.repeat(1_000_000)];
  input.write(frame({ id: 0, result: { outcome: 'failed', message, stack } }));
  t.same(await call, { outcome: 'failed', message: 'm'.repeat(8_192), stack: 's'.repeat(16_384) });
});

t.test('the text of a child’s error response is dropped', async (t) => {
  const { connection, input } = connect();
  const call = connection.request('x', {});
  input.write(frame({ id: 0, error: { code: 1, message: 'made up', data: {} } }));
  await t.rejects(call, { ...errorOf('broken'), message: 'the child answered a request with an error' });
});

t.test('the child receives the messages of HostCallRefusal only', async (t) => {
  const answers: Readonly<Record<string, () => Promise<unknown>>> = {
    known: () => Promise.reject(new HostCallRefusal('denied', 'not yours')),
    unknown: () => Promise.reject(new Error('/secret/path')),
    nothing: () => Promise.reject(null),
    undefined: () => Promise.resolve(undefined),
    null: () => Promise.resolve(null),
    large: () => Promise.resolve('x'.repeat(FRAME_TO_CHILD_MAX_BYTES)),
    circular: () => Promise.resolve({ secret: 1n }),
  };
  const names = Object.keys(answers);
  const peer = connect((params) => (answers[params as string] as () => Promise<unknown>)());
  for (const [id, name] of names.entries()) peer.input.write(frame({ id, method: 'hostCall', params: name }));
  const sent: Record<string, unknown>[] = [];
  // Each is answered in a turn of the event loop of its own.
  await eventually(() => sent.push(...sentTo(peer)) === names.length);
  sent.sort((one, other) => (one.id as number) - (other.id as number));
  const internal = { code: 1, message: 'The host failed to answer this call.', data: { code: 'internal' } };
  t.same(sent, [
    { jsonrpc: '2.0', id: 0, error: { code: 1, message: 'not yours', data: { code: 'denied' } } },
    { jsonrpc: '2.0', id: 1, error: internal },
    { jsonrpc: '2.0', id: 2, error: internal },
    { jsonrpc: '2.0', id: 3, result: {} },
    { jsonrpc: '2.0', id: 4, result: { value: null } },
    {
      jsonrpc: '2.0',
      id: 5,
      error: { code: 1, message: 'The result is too large for one message.', data: { code: 'too_large' } },
    },
    { jsonrpc: '2.0', id: 6, error: internal },
  ]);
});

t.test('a cancellation carries its reason, once', async (t) => {
  const peer = connect();
  const [late, unwanted, over] = [new SentCancellation(), new SentCancellation(), new SentCancellation()];
  const calls = [late, unwanted, over].map((cancellation) => peer.connection.request('x', {}, cancellation));
  peer.input.write(frame({ id: 2, result: 1 }));
  await calls[2];
  sentTo(peer);
  peer.connection.cancel(late, 'deadline');
  peer.connection.cancel(late, 'caller');
  peer.connection.cancel(unwanted, 'caller');
  peer.connection.cancel(over, 'caller');
  const cancel = (id: number, reason: string) => ({
    jsonrpc: '2.0',
    method: '$/cancelRequest',
    params: { id, reason },
  });
  t.same(sentTo(peer), [cancel(0, 'deadline'), cancel(1, 'caller')]);
  peer.input.write(Buffer.concat([frame({ id: 0, result: 'late' }), frame({ id: 1, result: 'too' })]));
  t.same(await Promise.all(calls), ['late', 'too', 1], 'the child still answers');
});

t.test('3,000 requests at once are refused beyond the bound', async (t) => {
  let calls = 0;
  const peer = connect(() => {
    calls += 1;
    return new Promise(() => undefined);
  });
  const flood = Buffer.concat(Array.from({ length: 1_000 }, (_, id) => frame({ id, method: 'hostCall' })));
  for (let batch = 0; batch < 3; batch += 1) peer.input.write(flood);
  await eventually(async () => peer.sent.length > 0);
  t.match(sentTo(peer)[0], { id: 128, error: { data: { code: 'too_many_calls' } } });
  t.equal(calls, 128);
  t.same(peer.violations, []);
});

t.test('requests that hold more than four of the largest frames are refused until others are answered', async (t) => {
  const answers: (() => void)[] = [];
  const peer = connect(() => new Promise((resolve) => answers.push(() => resolve(null))));
  peer.connection.chargeOutputTo(MUCH_OUTPUT);
  const request = (id: number): Buffer =>
    frame({ id, method: 'hostCall', params: { text: 'x'.repeat(FRAME_MAX_BYTES - 1_024) } });
  for (let id = 0; id < 5; id += 1) peer.input.write(request(id));
  // A small one is handled beside them.
  peer.input.write(frame({ id: 5, method: 'hostCall', params: {} }));
  await eventually(async () => answers.length === 5);
  t.match(sentTo(peer), [{ id: 4, error: { data: { code: 'too_many_calls' }, message: /at most 16 MiB/ } }]);
  answers[0]?.();
  await eventually(async () => peer.sent.length > 0);
  peer.input.write(request(6));
  await eventually(async () => answers.length === 6);
  t.match(sentTo(peer), [{ id: 0, result: { value: null } }]);
  t.same(peer.violations, []);
});

t.test('a flood is read at 10,000 frames per second, and the event loop keeps running', async (t) => {
  const { input, lines } = connect();
  const flood = Buffer.concat(Array.from({ length: 1_000 }, () => log(null)));
  const started = performance.now();
  for (let batch = 0; batch < 5; batch += 1) input.write(flood);
  while (lines.length < 5_000) await sleep(5);
  const ms = performance.now() - started;
  t.ok(ms >= 250, `5,000 frames took ${ms.toFixed(0)} ms`);
});

t.test('a peer that does not read is ended', async (t) => {
  const { connection, violations } = connect(undefined, { reads: false });
  const text = 'x'.repeat(6_000_000);
  const calls = Array.from({ length: 10 }, () => connection.request('x', { text }).catch((error) => error));
  await turn();
  t.equal(violations.length, 1);
  t.match(await Promise.all(calls), Array(10).fill({ kind: 'dead' }));
});

t.test('a message too large for a frame fails that call alone', async (t) => {
  const { connection, violations } = connect();
  await t.rejects(connection.request('x', { text: 'x'.repeat(FRAME_TO_CHILD_MAX_BYTES) }), errorOf('too_large'));
  await t.rejects(connection.request('x', { big: 1n }), errorOf('broken'));
  t.same(violations, []);
  connection.close(new ChildError('dead', 'over'));
});

t.test('what is answered after the end is not sent', async (t) => {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const peer = connect(() => promise);
  peer.input.write(frame({ id: 0, method: 'hostCall', params: {} }));
  await turn();
  peer.connection.close(new ChildError('dead', 'over'));
  resolve('late');
  await turn();
  t.same(sentTo(peer), []);
});

t.test('one that writes much at once is read in turns, whole and in order', async (t) => {
  const [much, little] = [connect(), connect()];
  const readBefore: number[] = [];
  const written = Array.from({ length: 300 }, (_, n) => log(n));
  const tail = log(300);
  much.input.write(Buffer.concat([...written, tail.subarray(0, 7)]));
  little.input.on('data', () => readBefore.push(much.lines.length));
  await turn();
  little.input.write(log('me too'));
  much.input.write(tail.subarray(7));
  const until = Date.now() + 10_000;
  while (much.lines.length < 301 && Date.now() < until) await turn();
  t.same(
    much.lines,
    Array.from({ length: 301 }, (_, n) => n),
  );
  t.same(little.lines, ['me too']);
  t.ok((readBefore[0] ?? 301) < 200, `the other was read after ${readBefore[0]} of them`);
  t.same(much.violations, []);
});
