/** Reads the log of an installation: its newest lines, then each new line as it is written. */
import { useEffect, useState } from 'react';
import type { Page } from '../../sdk/session/api-types.ts';
import { followEvents } from '../../sdk/session/event-stream.ts';
import { readBody, readProblem, rest } from '../rest/client.ts';
import { Problem } from '../rest/problem.ts';
import type { components } from '../rest/schema.d.ts';
import { fetchAsUser } from '../rest/user-fetch.ts';

export type LogLine = components['schemas']['LogLine'];
export type Level = LogLine['level'];
/** How many of the newest lines are loaded first. */
const HISTORY_LINES = 1_000;
/** How many pages are requested for them at most: a filter may match few lines of a long log. */
const HISTORY_PAGES = 20;
/** Lines that stay in memory. */
const LINES_MAX = 100_000;
/** New lines are rendered in batches, milliseconds. */
const BATCH_MS = 150;
/** Longest pause before the stream is opened again, milliseconds. */
const PAUSE_MS = 3_000;

interface LiveLines {
  /** Oldest first. */
  readonly lines: readonly LogLine[];
  /** Whether the log has older lines that were not searched. */
  readonly hasOlder: boolean;
  readonly state: 'loading' | 'live' | 'reconnecting' | 'failed';
  readonly error: Error | null;
}
const LOADING: LiveLines = { lines: [], hasOlder: false, state: 'loading', error: null };

interface LogFilter {
  readonly installationId: string;
  readonly sessionId: string;
  /** Separated by commas, so that equal filters are equal strings. */
  readonly levels: string;
}

/** @returns the lines, and a function that reads the log again after it failed */
export function useLiveLines({
  installationId,
  sessionId,
  levels,
}: LogFilter): LiveLines & { readonly retry: () => void } {
  const [current, setCurrent] = useState(LOADING);
  const [retries, setRetries] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a retry reads the log again
  useEffect(() => {
    const unmounted = new AbortController();
    setCurrent(LOADING);
    void loadLines({ installationId, sessionId, levels }, unmounted.signal, setCurrent);
    return () => unmounted.abort();
  }, [installationId, sessionId, levels, retries]);
  return { ...current, retry: () => setRetries((count) => count + 1) };
}

type Update = (change: (last: LiveLines) => LiveLines) => void;

async function loadLines(filter: LogFilter, signal: AbortSignal, update: Update): Promise<void> {
  try {
    const { lines, hasOlder } = await readHistory(filter, signal);
    update(() => ({ lines, hasOlder, state: 'live', error: null }));
    await followLines(filter, lines.at(-1)?.id, signal, update);
  } catch (cause) {
    if (signal.aborted) return;
    const error = cause instanceof Error ? cause : new Error('The log could not be read.');
    update((last) => ({ ...last, state: 'failed', error }));
  }
}

/** Reads the newest lines. If few lines match the filter, a page may be short or empty although others follow. */
async function readHistory(
  { installationId, sessionId, levels }: LogFilter,
  signal: AbortSignal,
): Promise<Pick<LiveLines, 'lines' | 'hasOlder'>> {
  const filter = {
    installationId,
    levels: levels.split(',') as Level[],
    ...(sessionId === '' ? {} : { sessionId }),
  };
  const lines: LogLine[] = [];
  let cursor: string | null = '';
  for (let pages = 0; cursor !== null && lines.length < HISTORY_LINES && pages < HISTORY_PAGES; pages++) {
    const query = { ...filter, limit: HISTORY_LINES - lines.length, ...(cursor === '' ? {} : { cursor }) };
    const page: Page<LogLine> = await readBody(rest.GET('/plugin-logs', { params: { query }, signal }));
    lines.push(...page.items);
    cursor = page.nextCursor;
  }
  return { lines: lines.reverse(), hasOlder: cursor !== null };
}

async function followLines(
  filter: LogFilter,
  after: string | undefined,
  signal: AbortSignal,
  update: Update,
): Promise<void> {
  let batch: LogLine[] = [];
  const renderBatch = () => {
    const added = batch;
    batch = [];
    if (!signal.aborted) update((last) => ({ ...last, lines: [...last.lines, ...added].slice(-LINES_MAX) }));
  };
  const open = async (lastId: string | undefined) => {
    const body = await openStream(filter, lastId, signal);
    update((last) => ({ ...last, state: 'live' }));
    return body;
  };
  const onBreak = () => update((last) => ({ ...last, state: 'reconnecting' }));
  for await (const { data } of followEvents({ open, after, isRetryable, onBreak, pauseMs: PAUSE_MS, signal })) {
    if (batch.push(JSON.parse(data)) === 1) setTimeout(renderBatch, BATCH_MS);
  }
}

const isRetryable = (error: unknown): boolean =>
  !(error instanceof Problem) || error.body.status >= 500 || error.body.status === 429;

async function openStream(
  { installationId, sessionId, levels }: LogFilter,
  lastId: string | undefined,
  signal: AbortSignal,
) {
  const query = new URLSearchParams({ installationId });
  for (const level of levels.split(',')) query.append('levels', level);
  if (sessionId !== '') query.set('sessionId', sessionId);
  const headers = new Headers({ accept: 'text/event-stream' });
  if (lastId !== undefined) headers.set('last-event-id', lastId);
  const response = await fetchAsUser(new Request(`/api/plugin-logs/stream?${query}`, { headers, signal }));
  if (!response.ok) throw await readProblem(response);
  return response.body;
}
