/**
 * The server that plugins under test report every arrival to before they answer. It plays a model endpoint: that is the one
 * way out of a plugin that needs neither names in the DNS nor the database.
 */

import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';
import { openAiEvents, stream } from '../supervisor/host/model-server.ts';
import type { Ledger } from './ledger.ts';

/** What the reporting plugin declares. */
export const CAPABILITIES = ['host.llm'];
/** Its code, JavaScript and TypeScript alike: to be published, or installed as it is. */
export const REPORTING = `
const report = (id, lane, place) =>
  host.llm.complete({ messages: [{ role: 'user', text: JSON.stringify({ id, lane, place }) }] });
channel.receive = async (request) => {
  const [lane, place] = request.bodyText.split(' ');
  await report(request.deliveryId, lane, Number(place));
  if (lane === 'hello') return { messages: [{ conversationKey: 'k', from: 'vendor', text: 'hello' }] };
};
channel.send = async ({ text }) => {
  const [id, lane, place] = text.split(' ');
  await report(id, lane, Number(place));
};
events.pluginInstalled = async (event) => void (await report(event.id, '', 0));
events.sessionStarted = async (event) => void (await report(event.data.sessionId, '', 0));
events.sessionDeleted = async (event) => void (await report(event.data.sessionId + ' deleted', '', 0));
`;
/** Code of a plugin that opens a conversation and gets no events. */
export const SILENT = `channel.receive = () => ({ messages: [{ conversationKey: 'k', from: 'vendor', text: 'hello' }] });`;

/**
 * It is closed with the test.
 *
 * @param onArrival told of each report; it is answered when that has settled
 * @returns a file for `MODELS_FILE`
 */
export async function startRecorder(
  t: Teardown,
  ledger: Ledger,
  onArrival: () => unknown = () => undefined,
): Promise<string> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    ledger.arrive(reportIn(Buffer.concat(chunks).toString()));
    await onArrival();
    stream(response).end(openAiEvents(['ok']));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const file = join(await temporaryFolder(t), 'models.json');
  await writeFile(file, JSON.stringify([{ name: 'outside', kind: 'openai', baseUrl, models: ['ledger'] }]));
  return file;
}

/** A request of the OpenAI kind, whose last message is the report. */
function reportIn(body: string) {
  const { content } = JSON.parse(body).messages.at(-1);
  return JSON.parse(typeof content === 'string' ? content : content[0].text);
}
