/** Interim responses (102) to clients whose HTTP library ends a request after some time without response headers. */
import type { FastifyInstance } from 'fastify';
import { onceClosed } from './closed-responses.ts';

/**
 * Time without response headers after which one is sent, and then again. Milliseconds. The `fetch` of Node ends a request after 300 s
 * and begins to count again with each. As rare as that allows, because some proxies do not pass them on.
 */
const INTERIM_MS = 240_000;
/** Clients that do not know interim responses, such as Python's `http.client`, take one for the response. So a client asks for them. */
const HEADER = 'bulkhead-interim';
const PROCESSING = '102';

export function sendInterimResponses(app: FastifyInstance, intervalMs = INTERIM_MS): void {
  app.addHook('onRequest', async ({ headers }, { raw }) => {
    if (headers[HEADER] !== PROCESSING) return;
    const timer = setInterval(() => {
      if (raw.headersSent) clearInterval(timer);
      else raw.writeProcessing();
    }, intervalMs);
    onceClosed(raw, () => clearInterval(timer));
  });
}
