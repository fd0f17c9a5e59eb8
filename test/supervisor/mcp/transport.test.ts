/** What a connection keeps of the requests of its client. */
import type { JSONRPCMessage, JSONRPCRequest } from '@modelcontextprotocol/sdk/types.js';
import t from 'tap';
import { McpTransport } from '../../../supervisor/mcp/transport.ts';

const CONNECTION = 'c1';

function post(transport: McpTransport, message: object): Promise<Response> {
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'mcp-session-id': CONNECTION,
  };
  const request = new Request('http://localhost/mcp', { method: 'POST', headers });
  return transport.handleRequest(request, { parsedBody: { jsonrpc: '2.0', ...message } });
}

t.test('a request whose client left before the answer is forgotten', async (t) => {
  const transport = new McpTransport({ sessionIdGenerator: () => CONNECTION });
  t.teardown(() => transport.close());
  await transport.start();
  const received: JSONRPCMessage[] = [];
  transport.onmessage = (message) => void received.push(message);
  const answerLast = () => transport.send({ jsonrpc: '2.0', result: {}, id: (received.at(-1) as JSONRPCRequest).id });
  const clientInfo = { name: 'test', version: '1' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  await post(transport, { id: 0, method: 'initialize', params });
  await answerLast();
  t.equal(transport.openPosts, 0, 'an answered request is over');
  const { id: requestId } = received.at(-1) as JSONRPCRequest;
  await post(transport, { method: 'notifications/cancelled', params: { requestId } });
  t.match(received.at(-1), { params: { requestId: 0 } }, 'the client does not know the id that the library has');
  const { body } = await post(transport, { id: 1, method: 'tools/call', params: { name: 'slow' } });
  t.equal(transport.openPosts, 1);
  await body?.cancel();
  await t.rejects(answerLast(), { message: /No connection/ });
  t.equal(transport.openPosts, 0);
});
