/** The fetch function for model endpoints: few connections, no redirects, limited responses. */
import type { fetch } from 'undici';
import { MIB } from '../../../sdk/contract/limits.ts';
import { LazyLoad } from '../../../service/timing/lazy-load.ts';

/** Maximum decoded size of a response. Text has a much lower limit; this one stops everything else. Bytes. */
const RESPONSE_MAX_BYTES = 16 * MIB;
/** Longest silence; the row's own limit ends most calls earlier. Milliseconds. */
const SILENCE_MS = 120_000;

interface EndpointFetch {
  readonly fetch: typeof globalThis.fetch;
  /** Closes every connection. */
  close(): Promise<void>;
}

/**
 * Opens the pool. Loads and connects nothing before the first request.
 *
 * @param connections of each endpoint at once; a further request waits for one
 */
export function openEndpointFetch(connections: number): EndpointFetch {
  const agent = new LazyLoad(() => openAgent(connections));
  const fetchBounded = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const { undici, dispatcher } = await agent.get();
    // Do not follow redirects: they would send the operator's key to another server.
    const options = { ...init, dispatcher, redirect: 'manual' } as Parameters<typeof fetch>[1];
    const answer = (await undici.fetch(input as string | URL, options)) as unknown as Response;
    if (!answer.body) return answer;
    const { status, statusText } = answer;
    return new Response(answer.body.pipeThrough(limitSize()), { status, statusText, headers: answer.headers });
  };
  return { fetch: fetchBounded, close: async () => (await agent.getLoaded())?.dispatcher.destroy() };
}

async function openAgent(connections: number) {
  const undici = await import('undici');
  const bounds = { connections, headersTimeout: SILENCE_MS, bodyTimeout: SILENCE_MS };
  return { undici, dispatcher: new undici.Agent(bounds) };
}

function limitSize(): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > RESPONSE_MAX_BYTES)
        controller.error(new Error(`the answer is larger than ${RESPONSE_MAX_BYTES} bytes`));
      else controller.enqueue(chunk);
    },
  });
}
