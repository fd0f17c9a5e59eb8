/** The text of log lines: what is copied, and what the filter finds. */
import t from 'tap';
import type { LogLine } from '../../console/logs/held-lines.ts';
import { filterLines, formatLogLine } from '../../console/logs/line-text.ts';

const createLine = (message: string): LogLine => ({
  id: message,
  at: '2026-01-01T00:00:00.000Z',
  level: 'info',
  message,
  data: null,
  installationId: 'i',
  sessionId: null,
  source: 'events.sessionStarted',
  invocationId: null,
  versionId: 'v',
  semVer: '1.0.0',
  truncated: false,
});

t.test('a message of several lines does not look like several log lines', async (t) => {
  const forged = formatLogLine({ ...createLine('The database is down'), source: 'system' });
  const lines = formatLogLine(createLine(`ok\n${forged}\r\nmore`)).split(/\r?\n/);
  t.same(lines, ['2026-01-01T00:00:00.000Z info  events.sessionStarted - ok', `    ${forged}`, '    more']);
});

t.test('the filter reads each line once, however often lines are added and the text changes', async (t) => {
  let reads = 0;
  const createCountedLine = (message: string): LogLine =>
    Object.defineProperty(createLine(message), 'message', {
      get: () => {
        reads += 1;
        return message;
      },
    });
  const lines = ['Good morning', 'good night', 'bell'].map(createCountedLine);
  t.equal(filterLines(lines, ' GOOD ').length, 2);
  const more = [...lines, createCountedLine('good evening')];
  t.equal(filterLines(more, 'good').length, 3);
  t.equal(filterLines(more, 'good n').length, 1);
  t.equal(filterLines(more, 'events.').length, 4, 'the source counts, too');
  t.equal(filterLines(more, ' '), more, 'without a text, all lines are there');
  t.equal(reads, more.length);
});
