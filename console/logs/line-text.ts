/** Formats log lines as text. */
import { escapeText } from '../style/untrusted-text.ts';
import type { LogLine } from './held-lines.ts';

export const formatMessage = ({ message, truncated }: LogLine): string =>
  escapeText(`${message}${truncated ? ' … (truncated)' : ''}`);

/** The data as JSON; empty without data. */
export const formatData = ({ data }: LogLine): string => (data == null ? '' : escapeText(JSON.stringify(data)));

export const formatLogLine = (line: LogLine): string =>
  [line.at, line.level.padEnd(5), line.source, line.sessionId ?? '-', formatMessage(line), formatData(line)]
    .join(' ')
    .trimEnd();
