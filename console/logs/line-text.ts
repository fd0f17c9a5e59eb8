/** A log line as text. */
import { visibleText } from '../style/visible-text.ts';
import type { LogLine } from './live-lines.ts';

/** What the plugin said, with its data. */
export function saidIn({ message, data, truncated }: LogLine): string {
  const extra = data === null || data === undefined ? '' : ` ${JSON.stringify(data)}`;
  return visibleText(`${message}${extra}${truncated ? ' … cut' : ''}`);
}

export const textOfLine = (line: LogLine): string =>
  `${line.at} ${line.level.padEnd(5)} ${line.source} ${line.sessionId ?? '-'} ${saidIn(line)}`;
