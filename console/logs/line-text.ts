/** Formats log lines as text. */
import { escapeText } from '../style/untrusted-text.ts';
import type { LogLine } from './held-lines.ts';

export const formatMessage = ({ message, truncated }: LogLine): string =>
  escapeText(`${message}${truncated ? ' … (truncated)' : ''}`);

/** The data as JSON; empty without data. */
export const formatData = ({ data }: LogLine): string => (data == null ? '' : escapeText(JSON.stringify(data)));

/** Indents further lines of the message, so that none looks like a log line. */
export function formatLogLine(line: LogLine): string {
  const message = formatMessage(line).replaceAll('\n', '\n    ');
  return [line.at, line.level.padEnd(5), line.source, line.sessionId ?? '-', message, formatData(line)]
    .join(' ')
    .trimEnd();
}

/** The text of each line that was searched. To format all lines again for each batch of new ones would stop the page. */
const searchTexts = new WeakMap<LogLine, string>();

/** Returns the lines that contain the text in any letter case. */
export function filterLines(lines: readonly LogLine[], text: string): readonly LogLine[] {
  const wanted = text.trim().toLowerCase();
  return wanted === '' ? lines : lines.filter((line) => getSearchText(line).includes(wanted));
}

function getSearchText(line: LogLine): string {
  const known = searchTexts.get(line);
  if (known !== undefined) return known;
  const text = formatLogLine(line).toLowerCase();
  searchTexts.set(line, text);
  return text;
}
