/** The plugin under test that reports every arrival, and the file that leads its reports to a server of the test. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';
import { startArrivalServer } from './arrival-server.ts';
import type { Ledger } from './ledger.ts';

/** The declared capabilities of the reporting plugin. */
export const CAPABILITIES = ['host.llm'];
/** Its code, JavaScript and TypeScript alike: to be published, or installed as it is. */
export const REPORTING = `
const report = (id, queue, place) =>
  host.llm.complete({ messages: [{ role: 'user', text: JSON.stringify({ id, queue, place }) }] });
channel.receive = async (request) => {
  const [queue, place] = request.bodyText.split(' ');
  await report(request.deliveryId, queue, Number(place));
  if (queue === 'hello') return { messages: [{ conversationKey: 'k', from: 'vendor', text: 'hello' }] };
};
channel.send = async ({ text }) => {
  const [id, queue, place] = text.split(' ');
  await report(id, queue, Number(place));
};
events.pluginInstalled = async (event) => void (await report(event.id, '', 0));
events.sessionStarted = async (event) => void (await report(event.data.sessionId, '', 0));
events.sessionDeleted = async (event) => void (await report(event.data.sessionId + ' deleted', '', 0));
`;
/** Code of a plugin that opens a conversation and gets no events. */
export const SILENT = `channel.receive = () => ({ messages: [{ conversationKey: 'k', from: 'vendor', text: 'hello' }] });`;

/**
 * Starts the server, which ends with the test.
 *
 * @param onArrival called with each report; it is answered when that has settled
 * @returns a file for `MODELS_FILE`
 */
export async function startRecorder(t: Teardown, ledger: Ledger, onArrival?: () => unknown): Promise<string> {
  const { models, close } = await startArrivalServer(ledger, onArrival);
  t.teardown(close);
  const file = join(await temporaryFolder(t), 'models.json');
  await writeFile(file, models);
  return file;
}
