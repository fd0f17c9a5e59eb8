/** Stack traces are mapped before lines are written, and the mapping of one account delays no line of another. */
import type { Pool } from 'pg';
import t, { type Test } from 'tap';
import type { LogLine } from '../../../db/records/logs.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { formatSourceName } from '../../../supervisor/calls/plugin-call.ts';
import { LogSink } from '../../../supervisor/records/log-sink.ts';
import { mapStacks, PARSED_CHARS } from '../../../supervisor/records/stack-worker.ts';
import type { CodedLine } from '../../../supervisor/records/stacks.ts';
import { eventually } from '../../runner/eventually.ts';

const SEMVER = '1.0.0';
const FRAME = `at ${formatSourceName({ slug: 'p', semVer: SEMVER })}:1:1`;
const caps = { linesPerMinute: 1e6, messageBytes: 8192, dataBytes: 16_384 };

const originOf = (accountId: string, installationId = accountId) => ({
  plugin: { accountId, installationId, versionId: 'v', slug: 'p', semVer: SEMVER, sourceMapSha256: 'f'.repeat(64) },
  sessionId: null,
  invocationId: null,
  source: 'tools.x',
});

/** A sink whose mapping is controlled by the test. */
function startSink(t: Test, map: (lines: readonly CodedLine[]) => Promise<LogLine[]>) {
  const stored: string[] = [];
  const query = async (_: string, [lines]: [string]) => {
    for (const { installationId, message } of JSON.parse(lines)) stored.push(`${installationId}: ${message}`);
  };
  const timers: (() => void)[] = [];
  const startTimer = (_: number, onOver: () => void) => {
    timers.push(onOver);
    return () => undefined;
  };
  const onError = (error: Error) => t.fail(error.message);
  const sink = new LogSink({ query } as unknown as Pool, { caps, onError, stacks: { map }, startTimer });
  const log = (installationId: string, message: string) =>
    sink.write(originOf(installationId.split(' ')[0] ?? '', installationId), { level: 'error', message });
  const endWaits = () => {
    for (const onOver of timers.splice(0)) onOver();
  };
  return { sink, stored, log, endWaits };
}

const never = () => new Promise<never>(() => undefined);
const toMapped = (lines: readonly CodedLine[]): LogLine[] =>
  lines.map(({ line }) => ({ ...line, message: line.message.replaceAll(FRAME, 'mapped') }));

t.test('an account whose stack traces are never mapped delays no line of another', async (t) => {
  const { sink, stored, log, endWaits } = startSink(t, (lines) =>
    lines.some(({ line }) => line.installationId === 'bad') ? never() : Promise.resolve(toMapped(lines)),
  );
  log('bad', FRAME);
  log('bad', 'behind it');
  log('good', 'plain');
  await eventually(async () => stored.includes('good: plain'));
  t.same(stored, ['good: plain'], 'a line behind an unmapped one of its installation waits with it');
  endWaits();
  log('good', FRAME);
  await sink.flush();
  const own = (name: string) => stored.filter((line) => line.startsWith(name));
  t.same(own('bad'), [`bad: ${FRAME}`, 'bad: behind it'], 'they are written without mapping');
  t.same(own('good'), ['good: plain', 'good: mapped']);
  await sink.close();
});

t.test('accounts are mapped in turn, and the lines of an installation keep their order', async (t) => {
  const turns: string[] = [];
  const first = Promise.withResolvers<void>();
  const { sink, stored, log } = startSink(t, async (lines) => {
    turns.push(lines[0]?.line.installationId ?? '');
    await first.promise;
    return toMapped(lines);
  });
  for (const name of ['bad 1', 'bad 2', 'bad 3', 'good']) log(name, `one ${FRAME}`);
  log('good', 'two');
  log('good', `three ${FRAME}`);
  t.equal(sink.waiting, 6);
  first.resolve();
  await sink.flush();
  t.same(turns, ['bad 1', 'bad 2', 'good', 'bad 3']);
  t.same(
    stored.filter((line) => line.startsWith('good')),
    ['good: one mapped', 'good: two', 'good: three mapped'],
  );
  t.equal(stored.length, 6);
  await sink.close();
});

t.test('lines beyond the buffer are written without mapping, in their order', async (t) => {
  const LINES = 250;
  const { sink, stored, log, endWaits } = startSink(t, never);
  const text = `${'x'.repeat(8_000)} ${FRAME}`;
  for (let index = 0; index < LINES; index += 1) log('bad', `${index} ${text}`);
  t.ok(LINES * text.length > 1.4 * MIB, 'more than the share of an account');
  await eventually(async () => stored.length > 0);
  log('good', FRAME);
  endWaits();
  await sink.flush();
  const order = stored.filter((line) => line.startsWith('bad')).map((line) => Number(line.split(' ')[1]));
  t.same(
    order,
    Array.from({ length: LINES }, (_, index) => index),
  );
  t.ok(stored.includes(`good: ${FRAME}`));
  await sink.close();
});

t.test('a stop writes the waiting lines at once, without mapping', async (t) => {
  const { sink, stored, log } = startSink(t, never);
  for (const name of ['one', 'two', 'three']) log(name, FRAME);
  log('one', 'behind it');
  t.equal(sink.waiting, 4);
  await sink.close();
  t.same(stored.toSorted(), [`one: ${FRAME}`, 'one: behind it', `three: ${FRAME}`, `two: ${FRAME}`].toSorted());
  log('late', FRAME);
  await sink.flush();
  t.equal(stored.at(-1), `late: ${FRAME}`, 'a line after the stop does not wait either');
});

t.test('parsed maps are kept up to a total length', async (t) => {
  const mapOf = (padding: number) =>
    Buffer.from(
      JSON.stringify({ version: 3, sources: ['package:a.ts'], names: ['x'.repeat(padding)], mappings: 'AAAA' }),
    );
  const map = (sourceMapSha256: string, sourceMap: Buffer | null) =>
    mapStacks({ sourceMapSha256, sourceMap, sourceName: 'p', texts: ['at p:1:1'] });
  for (const name of ['a', 'b']) t.same(map(name, mapOf(1)), ['at a.ts:1:1']);
  for (const name of ['a', 'b']) t.same(map(name, null), ['at a.ts:1:1'], 'more than one');
  const large = mapOf(0.6 * PARSED_CHARS);
  t.same(map('large', large), ['at a.ts:1:1']);
  t.same(map('b', null), ['at a.ts:1:1']);
  t.same(map('larger', large), ['at a.ts:1:1']);
  for (const name of ['a', 'large']) t.equal(map(name, null), null, 'those used longest ago are dropped');
  for (const name of ['b', 'larger']) t.same(map(name, null), ['at a.ts:1:1']);
});
