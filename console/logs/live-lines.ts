/** The lines of an installation: the last ones that were written, then each as it comes. */
import { useEffect, useState } from 'react';
import { readBody, rest } from '../rest/client.ts';
import { follow } from '../rest/event-stream.ts';
import type { components } from '../rest/schema.d.ts';

export type LogLine = components['schemas']['LogLine'];
export type Level = LogLine['level'];
/** Of the past, at the start. */
const HISTORY = 1_000;
/** Kept in the page at most: the oldest go first. */
const LINES_MAX = 100_000;
/** Lines that come together are shown together, milliseconds. */
const GATHER_MS = 150;

export interface LiveLines {
  /** Oldest first. */
  readonly lines: readonly LogLine[];
  readonly state: 'loading' | 'live' | 'broken';
  readonly error: Error | null;
}
const NOTHING: LiveLines = { lines: [], state: 'loading', error: null };

export interface LogFilter {
  readonly installationId: string;
  readonly sessionId: string;
  /** As a list with commas, so that equal filters are equal. */
  readonly levels: string;
}

export function useLiveLines({ installationId, sessionId, levels }: LogFilter): LiveLines {
  const [shown, setShown] = useState(NOTHING);
  useEffect(() => {
    const ended = new AbortController();
    setShown(NOTHING);
    void run({ installationId, sessionId, levels }, ended.signal, setShown);
    return () => ended.abort();
  }, [installationId, sessionId, levels]);
  return shown;
}

type Change = (change: (last: LiveLines) => LiveLines) => void;

async function run(filter: LogFilter, signal: AbortSignal, change: Change): Promise<void> {
  try {
    const lines = await readHistory(filter, signal);
    change(() => ({ lines, state: 'live', error: null }));
    await followLines(filter, { lastId: lines.at(-1)?.id ?? null, signal }, change);
  } catch (error) {
    if (!signal.aborted)
      change((last) => ({ ...last, error: error instanceof Error ? error : new Error('It broke.') }));
  }
}

async function readHistory({ installationId, sessionId, levels }: LogFilter, signal: AbortSignal): Promise<LogLine[]> {
  const query = {
    ...{ installationId, limit: HISTORY, levels: levels.split(',') as Level[] },
    ...(sessionId === '' ? {} : { sessionId }),
  };
  const { items } = await readBody(rest.GET('/plugin-logs', { params: { query }, signal }));
  return items.toReversed();
}

function followLines(filter: LogFilter, from: { lastId: string | null; signal: AbortSignal }, change: Change) {
  let waiting: LogLine[] = [];
  const show = () => {
    const come = waiting;
    waiting = [];
    if (!from.signal.aborted) change((last) => ({ ...last, lines: [...last.lines, ...come].slice(-LINES_MAX) }));
  };
  return follow(addressOf(filter), from, {
    onData: (data) => {
      if (waiting.push(JSON.parse(data)) === 1) setTimeout(show, GATHER_MS);
    },
    onState: (state) => change((last) => ({ ...last, state })),
    onRefused: (error) => change((last) => ({ ...last, error })),
  });
}

function addressOf({ installationId, sessionId, levels }: LogFilter): string {
  const query = new URLSearchParams({ installationId });
  for (const level of levels.split(',')) query.append('levels', level);
  if (sessionId !== '') query.set('sessionId', sessionId);
  return `/api/plugin-logs/stream?${query}`;
}
