/** An installation's log for people: pages, and lines as they are written. */
import { readEvents } from '../session/event-stream.ts';
import { BulkheadError, pauseFor } from '../session/transport.ts';
import type { Paint } from './output.ts';
import type { Rest } from './rest.ts';

export interface LogLine {
  readonly id: string;
  readonly at: string;
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly data: unknown;
  readonly sessionId: string | null;
  readonly source: string;
}
export interface LogFilter {
  readonly installationId: string;
  readonly levels: readonly string[];
  readonly sessionId: string | undefined;
}

/** Between one stream and the next, milliseconds: it ends by itself every 15 minutes. */
const PAUSE_MS = 500;
/** `12:34:56`, of an ISO moment. */
const TIME = [11, 19] as const;

/** The newest lines, oldest first. */
export async function lastLines(rest: Rest, filter: LogFilter, limit: number): Promise<readonly LogLine[]> {
  const { items } = await rest.get<{ items: LogLine[] }>(`/plugin-logs?${queryOf(filter)}&limit=${limit}`);
  return items.reverse();
}

/**
 * Lines as they are written, until the signal: a stream that breaks goes on after the last line seen.
 *
 * @param after id of the last line that is known; without it, what comes next
 */
export async function* followLines(
  rest: Rest,
  filter: LogFilter,
  { after, signal }: { after?: string | undefined; signal: AbortSignal },
): AsyncGenerator<LogLine> {
  for (let last = after; ; ) {
    try {
      const headers: Record<string, string> = last === undefined ? {} : { 'last-event-id': last };
      const response = await rest.open(`/plugin-logs/stream?${queryOf(filter)}`, headers);
      for await (const { id, data } of readEvents(response.body ?? new ReadableStream())) {
        if (id !== '') last = id;
        if (data !== '') yield JSON.parse(data) as LogLine;
      }
    } catch (error) {
      signal.throwIfAborted();
      // Gone, or not ours: waiting mends nothing. A service that is away comes back.
      if (error instanceof BulkheadError && error.status < 500 && error.status !== 429) throw error;
    }
    await pauseFor(PAUSE_MS, signal);
  }
}

function queryOf({ installationId, levels, sessionId }: LogFilter): string {
  const query = new URLSearchParams({ installationId });
  for (const level of levels) query.append('levels', level);
  if (sessionId !== undefined) query.set('sessionId', sessionId);
  return String(query);
}

/** One line as a terminal shows it; data follows as JSON, stacks on lines of their own. */
export function shownLine({ at, level, source, message, data }: LogLine, paint: Paint): string {
  const paints = { debug: paint.dim, info: paint.cyan, warn: paint.yellow, error: paint.red } as const;
  const { stack, ...rest } = isObject(data) ? data : { stack: undefined, value: data };
  const more = Object.values(rest).some((value) => value !== null && value !== undefined);
  const shown = more ? ` ${paint.dim(JSON.stringify(isObject(data) ? rest : data))}` : '';
  const frames = typeof stack === 'string' ? `\n${stack.replace(/^/gm, '    ')}` : '';
  return `${paint.dim(at.slice(...TIME))} ${paints[level](level.padEnd(5))} ${source}: ${message}${shown}${frames}`;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
