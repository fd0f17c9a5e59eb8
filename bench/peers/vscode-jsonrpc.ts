/** The peer that uses vscode-jsonrpc with its stock reader and writer. */
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
