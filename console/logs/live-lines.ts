/** Reads the log of an installation: its newest lines, each new line as it is written, and older ones on request. */
import { focusManager } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { Page } from '../../sdk/session/api-types.ts';
import { followEvents } from '../../sdk/session/event-stream.ts';
import { readBody, readProblem, rest } from '../rest/client.ts';
import { Problem } from '../rest/problem.ts';
import { fetchAsUser } from '../rest/user-fetch.ts';
import { appendLines, type HeldLines, type LogLine, NO_LINES, prependLines } from './held-lines.ts';

export type Level = LogLine['level'];
/** How many of the newest lines are loaded first, and how many older ones at each request. */
const HISTORY_LINES = 1_000;
/** How many pages are requested for them at most: a filter may match few lines of a long log. */
const HISTORY_PAGES = 20;
/** New lines are rendered in batches, milliseconds. */
const BATCH_MS = 150;
/** Longest pause before the stream is opened again, milliseconds. */
const PAUSE_MS = 3_000;

interface LiveLines {
  readonly held: HeldLines;
  /** Cursor of the lines before the first one. Null: the log has no older lines. */
  readonly older: string | null;
  readonly state: 'loading' | 'live' | 'reconnecting' | 'failed';
  readonly error: Error | null;
}
const LOADING: LiveLines = { held: NO_LINES, older: null, state: 'loading', error: null };

interface LogFilter {
  readonly installationId: string;
  readonly sessionId: string;
  /** Separated by commas, so that equal filters are equal strings. */
  readonly levels: string;
}

interface Log extends Omit<LiveLines, 'held' | 'older'>, Pick<HeldLines, 'lines'> {
  /** Whether the log has older lines that are not loaded. */
  readonly hasOlder: boolean;
  /** Loads some of them and returns these. Null: all are loaded, or no more lines fit into the memory. */
  readonly loadOlder: (() => Promise<readonly LogLine[]>) | null;
  /** Reads the log again after it failed. */
  readonly retry: () => void;
}

export function useLiveLines({ installationId, sessionId, levels }: LogFilter): Log {
  const [retries, setRetries] = useState(0);
  const wanted = JSON.stringify([installationId, sessionId, levels, retries]);
  const [loaded, setLoaded] = useState({ wanted, log: LOADING });
  // From the first render of another filter on: what the old one has found must not be announced as the result of the new one.
  const current = loaded.wanted === wanted ? loaded.log : LOADING;
  const closing = useRef<AbortSignal | null>(null);
  const update: Update = (change) =>
    setLoaded((last) => (last.wanted === wanted ? { wanted, log: change(last.log) } : last));
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is wanted has the filter, and `update` differs with it only
  useEffect(() => {
    const unmounted = new AbortController();
    closing.current = unmounted.signal;
    setLoaded({ wanted, log: LOADING });
    void loadLines({ installationId, sessionId, levels }, unmounted.signal, update);
    return () => unmounted.abort();
  }, [wanted]);
  const { held, older, ...shown } = current;
  const { lines, isFull } = held;
  const filter = { installationId, sessionId, levels };
  return {
    ...shown,
    lines,
    hasOlder: older !== null || isFull,
    loadOlder: older === null || isFull ? null : () => prependOlder(filter, older, closing.current, update),
    retry: () => setRetries((count) => count + 1),
  };
}

type Update = (change: (last: LiveLines) => LiveLines) => void;

async function loadLines(filter: LogFilter, signal: AbortSignal, update: Update): Promise<void> {
  try {
    // Lines that a hidden page would not follow must not be written after its history was read.
    await waitUntilVisible(signal);
    const lines = await loadNewest(filter, signal, update);
    await followLines(filter, lines.at(-1)?.id, signal, update);
  } catch (cause) {
    if (signal.aborted) return;
    const error = cause instanceof Error ? cause : new Error('The log could not be read.');
    update((last) => ({ ...last, state: 'failed', error }));
  }
}

/** Shows the newest lines instead of those that are shown. @returns them */
async function loadNewest(filter: LogFilter, signal: AbortSignal, update: Update): Promise<readonly LogLine[]> {
  const { lines, older } = await readHistory(filter, '', signal);
  update(() => ({ held: appendLines(NO_LINES, lines), older, state: 'live', error: null }));
  return lines;
}

/** @returns the lines that were added; none if the user has chosen another filter or left the page */
async function prependOlder(
  filter: LogFilter,
  cursor: string,
  signal: AbortSignal | null,
  update: Update,
): Promise<readonly LogLine[]> {
  try {
    const { lines, older } = await readHistory(filter, cursor, signal);
    if (signal?.aborted) return [];
    update((last) => ({ ...last, held: prependLines(last.held, lines), older }));
    return lines;
  } catch (cause) {
    if (signal?.aborted) return [];
    throw cause;
  }
}

/**
 * Reads the lines before a cursor. If few lines match the filter, a page may be short or empty although others follow.
 *
 * @param from empty: the newest lines
 */
async function readHistory(
  { installationId, sessionId, levels }: LogFilter,
  from: string,
  signal: AbortSignal | null,
): Promise<{ readonly lines: readonly LogLine[]; readonly older: string | null }> {
  const filter = {
    installationId,
    levels: levels.split(',') as Level[],
    ...(sessionId === '' ? {} : { sessionId }),
  };
  const lines: LogLine[] = [];
  let cursor: string | null = from;
  for (let pages = 0; cursor !== null && lines.length < HISTORY_LINES && pages < HISTORY_PAGES; pages++) {
    const query = { ...filter, limit: HISTORY_LINES - lines.length, ...(cursor === '' ? {} : { cursor }) };
    const page: Page<LogLine> = await readBody(rest.GET('/plugin-logs', { params: { query }, signal }));
    lines.push(...page.items);
    cursor = page.nextCursor;
  }
  return { lines: lines.reverse(), older: cursor };
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
    if (!signal.aborted) update((last) => ({ ...last, held: appendLines(last.held, added) }));
  };
  /** Ids of lines that were loaded after the stream was open: it may send them, too. */
  let loaded: ReadonlySet<string> = new Set();
  let hidden = new AbortController();
  const open = async (lastId: string | undefined) => {
    await waitUntilVisible(signal);
    hidden = new AbortController();
    const body = await openStream(filter, lastId, AbortSignal.any([signal, hidden.signal]));
    // A stream without a last line begins with the next one: lines that were written since the log was read, and found empty, are
    // missing in both.
    if (lastId === undefined) {
      const lines = await loadNewest(filter, signal, update).catch(async (error: unknown) => {
        await body?.cancel();
        throw error;
      });
      loaded = new Set(lines.map(({ id }) => id));
    }
    update((last) => ({ ...last, state: 'live' }));
    return body;
  };
  const onBreak = () => update((last) => ({ ...last, state: 'reconnecting' }));
  // Without HTTP/2, a browser opens six connections to a host: as many hidden tabs with a log would block all others.
  const unsubscribe = focusManager.subscribe((isVisible) => {
    if (!isVisible) hidden.abort();
  });
  try {
    for await (const { data } of followEvents({ open, after, isRetryable, onBreak, pauseMs: PAUSE_MS, signal })) {
      const line: LogLine = JSON.parse(data);
      if (!loaded.has(line.id) && batch.push(line) === 1) setTimeout(renderBatch, BATCH_MS);
    }
  } finally {
    unsubscribe();
  }
}

/** Waits until the user can see the page. @throws the signal's reason */
async function waitUntilVisible(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (focusManager.isFocused()) return;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const unsubscribe = focusManager.subscribe((isVisible) => {
    if (isVisible) resolve();
  });
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort);
  await promise.finally(() => {
    unsubscribe();
    signal.removeEventListener('abort', onAbort);
  });
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
