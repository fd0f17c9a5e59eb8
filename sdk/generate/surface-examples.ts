/** One complete example per registered surface. The reference shows them and a test type-checks them. */
import type { SurfaceName } from '../contract/protocol.ts';

export const surfaceExamples: Record<SurfaceName, string> = {
  tools: `tools.double = {
  description: 'Doubles a number.',
  parameters: { type: 'object', properties: { value: { type: 'number' } }, required: ['value'] },
  handler: ({ value }: { value: number }) => String(value * 2),
};`,
  commands: `commands.hello = {
  description: 'Says hello.',
  handler: (input) => ({ text: \`Hello, \${input || 'world'}!\` }),
};`,
  providers: `providers.echo = {
  models: [{ id: 'echo-1', name: 'Echo' }],
  async *chat(request) {
    const text = request.messages.at(-1)?.text ?? '';
    for (const word of text.split(/(?<= )/)) yield { text: word };
    return { text, model: 'echo-1', usage: { inputTokens: 0, outputTokens: 0 } };
  },
};`,
  'channel.receive': `channel.receive = (request) => {
  const update: { chat: string; from: string; text: string } = JSON.parse(request.bodyText);
  return { messages: [{ conversationKey: update.chat, from: update.from, text: update.text }] };
};`,
  'channel.send': `channel.send = async (message, ctx) => {
  const url = \`https://api.example.com/chats/\${message.conversationKey}\`;
  // Vendors with idempotency keys send a reply once, also where an attempt failed after they had got it.
  const headers = { 'idempotency-key': message.deliveryId };
  const answer = await host.http.fetch(url, { method: 'POST', headers, body: message.text });
  // Any status is a result. Only a handler that throws is called again with the same reply.
  if (answer.status < 200 || answer.status > 299) throw new Error(\`The vendor responded with status \${answer.status}.\`);
};`,
  'channel.handshake': `channel.handshakeOn = { jsonType: 'url_verification' };
channel.handshake = (request) => {
  const { challenge }: { challenge: string } = JSON.parse(request.bodyText);
  return { status: 200, headers: { 'content-type': 'text/plain' }, body: challenge };
};`,
};
