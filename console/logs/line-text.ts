/** A log line as text. */
import { visibleText } from '../style/visible-text.ts';
import type { LogLine } from './live-lines.ts';

/** What the plugin said. */
export const saidIn = ({ message, truncated }: LogLine): string =>
  visibleText(`${message}${truncated ? ' … cut' : ''}`);

/** What it said it with; empty where there is nothing. */
export const dataOf = ({ data }: LogLine): string => (data == null ? '' : visibleText(JSON.stringify(data)));

export const textOfLine = (line: LogLine): string =>
  [line.at, line.level.padEnd(5), line.source, line.sessionId ?? '-', saidIn(line), dataOf(line)].join(' ').trimEnd();
