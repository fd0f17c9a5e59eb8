/** The bare peer that speaks vscode-jsonrpc over its stock reader and writer. */
import { createMessageConnection, StreamMessageReader, StreamMessageWriter } from 'vscode-jsonrpc/node';

const connection = createMessageConnection(
  new StreamMessageReader(process.stdin),
  new StreamMessageWriter(process.stdout),
);
connection.onRequest('invoke', ({ context }: { context: { systemPrompt: string } }) => ({
  outcome: 'answered',
  answer: context.systemPrompt,
}));
connection.listen();
