/**
 * The server that plugins under test report every arrival to before they answer. It plays a model endpoint: that is the one
 * way out of a plugin that needs neither names in the DNS nor the database.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openAiEvents, stream } from '../supervisor/host/model-server.ts';
import type { Ledger } from './ledger.ts';

interface ArrivalServer {
  /** Content of a file for `MODELS_FILE`. */
  readonly models: string;
  close(): Promise<void>;
}

/** @param onArrival called with each report; it is answered when that has settled */
export async function startArrivalServer(
  ledger: Pick<Ledger, 'arrive'>,
  onArrival: () => unknown = () => undefined,
): Promise<ArrivalServer> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    // A process that is killed breaks its request off.
    const isWhole = await readAll(request, chunks);
    if (!isWhole) return;
    ledger.arrive(reportIn(Buffer.concat(chunks).toString()));
    await onArrival();
    stream(response).end(openAiEvents(['ok']));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return {
    models: JSON.stringify([{ name: 'outside', kind: 'openai', baseUrl, models: ['ledger'] }]),
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

async function readAll(request: AsyncIterable<Buffer>, chunks: Buffer[]): Promise<boolean> {
  try {
    for await (const chunk of request) chunks.push(chunk);
    return true;
  } catch {
    return false;
  }
}

/** A request of the OpenAI kind, whose last message is the report. */
function reportIn(body: string) {
  const { content } = JSON.parse(body).messages.at(-1);
  return JSON.parse(typeof content === 'string' ? content : content[0].text);
}
