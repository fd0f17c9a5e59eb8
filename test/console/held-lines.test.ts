/** The lines that the page of a log holds: how many, and how much text. */
import t from 'tap';
import {
  appendLines,
  LINES_MAX,
  type LogLine,
  NO_LINES,
  prependLines,
  TEXT_MAX_MIB,
} from '../../console/logs/held-lines.ts';

const MIB = 2 ** 20;

const createLines = (count: number, chars: number, firstId = 1): LogLine[] =>
  Array.from({ length: count }, (_, at) => ({
    id: String(firstId + at),
    at: '2026-01-01T00:00:00.000Z',
    level: 'info',
    message: 'x'.repeat(chars),
    data: null,
    installationId: 'i',
    sessionId: null,
    source: 's',
    invocationId: null,
    versionId: 'v',
    semVer: '1.0.0',
    truncated: false,
  }));

t.test('drops the oldest lines of a log with long lines before it holds too much text', async (t) => {
  let held = appendLines(NO_LINES, createLines(10, 10));
  t.same([held.lines.length, held.isFull], [10, false]);
  const batches = 2 * TEXT_MAX_MIB;
  for (let batch = 0; batch < batches; batch += 1)
    held = appendLines(held, createLines(64, 16 * 1024, 100 + batch * 64));
  const chars = held.lines.reduce((sum, line) => sum + JSON.stringify(line).length, 0);
  t.equal(held.chars, chars, 'counted as it is');
  t.ok(chars <= TEXT_MAX_MIB * MIB && chars > (TEXT_MAX_MIB - 1) * MIB, `${chars} characters`);
  t.equal(held.lines.at(-1)?.id, String(99 + batches * 64), 'the newest line stays');
  t.ok(held.isFull, 'no older line can be loaded before the first one');
});

t.test('drops the oldest lines of a log with many lines', async (t) => {
  const full = appendLines(NO_LINES, createLines(LINES_MAX, 0));
  t.same([full.lines.length, full.isFull], [LINES_MAX, true]);
  const next = appendLines(full, createLines(2, 0, LINES_MAX + 1));
  t.same([next.lines.length, next.lines[0]?.id, next.isFull], [LINES_MAX, '3', true]);
});

t.test('adds older lines at the start, as many as fit', async (t) => {
  const held = appendLines(NO_LINES, createLines(2, 0, 10));
  const more = prependLines(held, createLines(2, 0, 8));
  t.same(
    more.lines.map(({ id }) => id),
    ['8', '9', '10', '11'],
  );
  t.notOk(more.isFull);
  const most = prependLines(more, createLines(TEXT_MAX_MIB, MIB, 12));
  t.equal(most.lines.at(-1)?.id, '11');
  t.ok(most.lines.length < 4 + TEXT_MAX_MIB && most.isFull);
});
