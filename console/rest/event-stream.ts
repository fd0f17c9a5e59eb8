/** Server-sent events over `fetch`, because an `EventSource` cannot send the token. Comes back after every break. */
import { readToken } from '../sign-in/token.ts';
import { readProblem } from './client.ts';
import { Problem } from './problem.ts';

/** Between a break and the next try, milliseconds. */
const PAUSE_MS = 1_500;
export interface StreamHandlers {
  /** Of one event: its `data`. */
  readonly onData: (data: string) => void;
  readonly onState: (state: 'live' | 'broken') => void;
  /** A refusal, which a further try would only repeat. */
  readonly onRefused: (error: Error) => void;
}

/**
 * Follows a stream until the signal ends it.
 *
 * @param lastId what is known already; the stream goes on after it
 */
export async function follow(
  url: string,
  { lastId, signal }: { lastId: string | null; signal: AbortSignal },
  handlers: StreamHandlers,
): Promise<void> {
  let position = lastId;
  while (!signal.aborted) {
    try {
      const body = await open(url, position, signal);
      handlers.onState('live');
      await readEvents(body, (data, id) => {
        position = id ?? position;
        handlers.onData(data);
      });
    } catch (error) {
      if (error instanceof Problem && error.body.status < 500 && error.body.status !== 429) {
        handlers.onRefused(error);
        return;
      }
    }
    if (signal.aborted) return;
    handlers.onState('broken');
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

async function open(url: string, lastId: string | null, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const headers = new Headers({ authorization: `Bearer ${readToken() ?? ''}`, accept: 'text/event-stream' });
  if (lastId !== null) headers.set('last-event-id', lastId);
  const response = await fetch(url, { headers, signal });
  if (!response.ok || !response.body) throw await readProblem(response);
  return response.body;
}

async function readEvents(
  body: ReadableStream<Uint8Array>,
  onEvent: (data: string, id: string | null) => void,
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const lines = block.split('\n');
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, ''));
      const id = lines.find((line) => line.startsWith('id:'));
      if (data.length > 0) onEvent(data.join('\n'), id === undefined ? null : id.slice(3).trim());
    }
  }
}
