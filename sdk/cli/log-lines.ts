/** Reads and formats the log lines of an installation. */

import { isRecord } from '../contract/is-record.ts';
import { followEvents } from '../session/event-stream.ts';
import { isTransient } from './failure.ts';
import type { Paint } from './output.ts';
import type { Rest } from './rest.ts';
import { indentLines } from './terminal-text.ts';

interface LogLine {
  readonly id: string;
  readonly at: string;
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly data: unknown;
  readonly sessionId: string | null;
  readonly source: string;
}
interface LogFilter {
  readonly installationId: string;
  readonly levels: readonly string[];
  readonly sessionId: string | undefined;
}

/** Sorts before the id of every line, so a stream after it begins with the first line. */
export const BEFORE_FIRST_LINE = '00000000-0000-7000-8000-000000000000';
/** Longest pause before the log stream is opened again, milliseconds. The service ends each stream after 15 minutes. */
const PAUSE_MS = 1_000;
const MINUTE_MS = 60_000;

/** Returns the newest lines, oldest first. */
export async function readLastLines(rest: Rest, filter: LogFilter, limit: number): Promise<readonly LogLine[]> {
  const newestFirst = await rest.getFirst<LogLine>('/plugin-logs', toQueryString(filter), limit);
  return newestFirst.reverse();
}

/**
 * Yields lines as they are written, until the signal aborts.
 *
 * @param after id of the last known line
 */
export async function* followLines(
  rest: Rest,
  filter: LogFilter,
  { after, signal }: { after: string; signal: AbortSignal },
): AsyncGenerator<LogLine> {
  const open = async (lastId: string | undefined) => {
    const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId };
    return (await rest.open(`/plugin-logs/stream?${toQueryString(filter)}`, headers)).body;
  };
  for await (const { data } of followEvents({ open, after, isRetryable: isTransient, pauseMs: PAUSE_MS, signal })) {
    yield JSON.parse(data) as LogLine;
  }
}

function toQueryString({ installationId, levels, sessionId }: LogFilter): string {
  const query = new URLSearchParams({ installationId });
  for (const level of levels) query.append('levels', level);
  if (sessionId !== undefined) query.set('sessionId', sessionId);
  return String(query);
}

/** Local time, such as `2026-01-05 12:34:56`. */
function toLocalTime(date: Date): string {
  const local = new Date(date.getTime() - date.getTimezoneOffset() * MINUTE_MS);
  return local.toISOString().slice(0, '2026-01-05T12:34:56'.length).replace('T', ' ');
}

/**
 * Formats a line for a terminal, with its local time, before which the date stands if it is not today's, and its data as JSON. Further
 * lines of its text are indented, so that none looks like a log line.
 */
export function formatLine({ at, level, source, message, data }: LogLine, paint: Paint, now = new Date()): string {
  const paints = { debug: paint.dim, info: paint.cyan, warn: paint.yellow, error: paint.red } as const;
  const { stack, shown } = splitStack(data);
  const shownData = shown === null || shown === undefined ? '' : ` ${paint.dim(JSON.stringify(shown))}`;
  const frames = stack === null ? '' : `\n    ${indentLines(stack)}`;
  const time = toLocalTime(new Date(at));
  const today = toLocalTime(now).slice(0, '2026-01-05 '.length);
  const shownTime = time.startsWith(today) ? time.slice(today.length) : time;
  return `${paint.dim(shownTime)} ${paints[level](level.padEnd(5))} ${source}: ${indentLines(message)}${shownData}${frames}`;
}

/** Separates the stack of an error from its other fields. A field of that name that is no text is data like any other. */
function splitStack(data: unknown): { readonly stack: string | null; readonly shown: unknown } {
  if (!isRecord(data)) return { stack: null, shown: data };
  const { stack, ...others } = data;
  const hasStack = typeof stack === 'string';
  const fields = hasStack ? others : data;
  return { stack: hasStack ? stack : null, shown: Object.keys(fields).length === 0 ? null : fields };
}
