/** How model endpoints are reached: few connections, no redirects, and no answer without end. */
import type { Agent, fetch } from 'undici';
import { MIB } from '../../../sdk/contract/limits.ts';

/** An answer's bytes after decoding. The text in it is bounded much lower; this ends what is no text at all. */
export const RESPONSE_MAX_BYTES = 16 * MIB;
const CONNECTIONS_PER_ENDPOINT = 64;
/** The longest silence; the row's own time ends most calls before. Milliseconds. */
const SILENCE_MS = 120_000;

export interface EndpointFetch {
  readonly fetch: typeof globalThis.fetch;
  /** Ends every connection. */
  close(): Promise<void>;
}

/** Opens the pool. Nothing is loaded or connected before the first request. */
export function openEndpointFetch(maxBytes: number = RESPONSE_MAX_BYTES): EndpointFetch {
  let opened: Promise<{ undici: typeof import('undici'); dispatcher: Agent }> | undefined;
  const ask = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    opened ??= openAgent();
    const { undici, dispatcher } = await opened;
    // A redirect would carry the operator's key to whoever it names: it is an answer like any other, and a wrong one.
    const options = { ...init, dispatcher, redirect: 'manual' } as Parameters<typeof fetch>[1];
    const answer = (await undici.fetch(input as string | URL, options)) as unknown as Response;
    if (!answer.body) return answer;
    const { status, statusText } = answer;
    return new Response(answer.body.pipeThrough(bounded(maxBytes)), { status, statusText, headers: answer.headers });
  };
  return { fetch: ask, close: async () => (await opened)?.dispatcher.destroy() };
}

async function openAgent() {
  const undici = await import('undici');
  const bounds = { connections: CONNECTIONS_PER_ENDPOINT, headersTimeout: SILENCE_MS, bodyTimeout: SILENCE_MS };
  return { undici, dispatcher: new undici.Agent(bounds) };
}

function bounded(maxBytes: number): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) controller.error(new Error(`the answer is larger than ${maxBytes} bytes`));
      else controller.enqueue(chunk);
    },
  });
}
