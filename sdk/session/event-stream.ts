/** Reads server-sent events from a `fetch` response. `EventSource` cannot be used: it sends no token. */
import { pause } from './pause.ts';

export interface ServerSentEvent {
  readonly id: string;
  readonly type: string;
  readonly data: string;
}
interface FollowOptions {
  /** Opens the stream after the event with this id. */
  readonly open: (lastId: string | undefined) => Promise<ReadableStream<Uint8Array> | null>;
  /** Id of the last event that is known; without it, the stream starts with the next event. */
  readonly after?: string | undefined;
  /** Whether to try again after `open` failed. */
  readonly isRetryable: (error: unknown) => boolean;
  /** Called before the pause after a stream ended or broke, or `open` failed with this error. */
  readonly onBreak?: (error?: unknown) => void;
  /** Longest pause before the stream is opened again, milliseconds. */
  readonly pauseMs: number;
  /** A stream that sends nothing for this time has ended, milliseconds. Default: 45,000. */
  readonly silenceMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** Three heartbeats of the service. Milliseconds. */
export const STREAM_SILENCE_MS = 45_000;
/** Events have at most 1 MiB; a longer line is not one of them. Characters. */
const LINE_MAX = 8 * 1024 * 1024;

/**
 * Reads events until the signal aborts. Opens the stream again after the last event whenever it ends or breaks.
 *
 * @throws the error of `open` that is not retryable, or the signal's reason
 */
export async function* followEvents(options: FollowOptions): AsyncGenerator<ServerSentEvent> {
  const { open, after, isRetryable, onBreak, pauseMs, silenceMs = STREAM_SILENCE_MS, signal } = options;
  for (let lastId = after; ; ) {
    let openError: unknown;
    const body = await open(lastId).catch((error: unknown) => {
      signal?.throwIfAborted();
      if (!isRetryable(error)) throw error;
      openError = error;
      return null;
    });
    try {
      for await (const event of readEvents(body, silenceMs)) {
        if (event.id !== '') lastId = event.id;
        if (event.data !== '') yield event;
      }
    } catch {
      signal?.throwIfAborted();
    }
    onBreak?.(openError);
    // Full jitter: clients of a restarted service do not all reconnect at once.
    await pause(pauseMs * Math.random(), signal);
  }
}

/**
 * Reads events until the stream ends. An event with only an id has empty `data`.
 *
 * @param silenceMs a stream that sends nothing for this time has ended, milliseconds; without it, it may be silent
 */
export async function* readEvents(
  body: ReadableStream<Uint8Array> | null,
  silenceMs?: number,
): AsyncGenerator<ServerSentEvent> {
  if (body === null) return;
  let event = { id: '', type: 'message', data: [] as string[] };
  for await (const line of readLines(body, silenceMs)) {
    if (line === '') {
      yield { id: event.id, type: event.type, data: event.data.join('\n') };
      event = { id: event.id, type: 'message', data: [] };
      continue;
    }
    // `s`: a line may contain U+2028 and U+2029, where `.` would end.
    const [, field, value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === 'id') event.id = value;
    else if (field === 'event') event.type = value;
    else if (field === 'data') event.data.push(value);
  }
}

async function* readLines(body: ReadableStream<Uint8Array>, silenceMs?: number): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  const endRead = () => reader.cancel().catch(() => undefined);
  let rest = '';
  try {
    for (;;) {
      // A machine that vanishes closes no connection.
      const timer = silenceMs === undefined ? undefined : setTimeout(endRead, silenceMs);
      const { value, done } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r/);
      rest = lines.pop() ?? '';
      if (rest.length > LINE_MAX) throw new Error(`A line of the event stream has more than ${LINE_MAX} characters.`);
      yield* lines;
    }
  } finally {
    await endRead();
  }
}
