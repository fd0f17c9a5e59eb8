/** What a connection keeps of the requests of its client. */
import type { JSONRPCMessage, JSONRPCRequest } from '@modelcontextprotocol/sdk/types.js';
import t, { type Test } from 'tap';
import { readEvents } from '../../../sdk/session/event-stream.ts';
import { McpTransport } from '../../../supervisor/mcp/transport.ts';
import { eventually } from '../../runner/eventually.ts';

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

async function startTransport(test: Test) {
  const transport = new McpTransport({ sessionIdGenerator: () => CONNECTION });
  test.teardown(() => transport.close());
  await transport.start();
  const received: JSONRPCMessage[] = [];
  transport.onmessage = (message) => void received.push(message);
  const readLastId = () => (received.at(-1) as JSONRPCRequest).id;
  const answerLast = () => transport.send({ jsonrpc: '2.0', result: {}, id: readLastId() });
  /** Resolves when the request has been received. */
  const ask = async (message: object) => {
    const before = received.length;
    const answering = post(transport, message);
    await eventually(() => received.length > before);
    return { answering };
  };
  const clientInfo = { name: 'test', version: '1' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  const { answering } = await ask({ id: 0, method: 'initialize', params });
  await answerLast();
  await answering;
  return { transport, received, ask, readLastId, answerLast };
}

t.test('a request whose client left before the answer is forgotten', async (t) => {
  const { transport, received, ask, readLastId, answerLast } = await startTransport(t);
  t.equal(transport.openPosts, 0, 'an answered request is over');
  await post(transport, { method: 'notifications/cancelled', params: { requestId: readLastId() } });
  t.match(received.at(-1), { params: { requestId: 0 } }, 'the client does not know the id that the library has');
  const { answering } = await ask({ id: 1, method: 'tools/call', params: { name: 'slow' } });
  t.equal(transport.openPosts, 1);
  await transport.send({ jsonrpc: '2.0', method: 'notifications/progress' }, { relatedRequestId: readLastId() });
  await (await answering).body?.cancel();
  await t.rejects(answerLast(), { message: /No connection/ });
  t.equal(transport.openPosts, 0);
});

t.test('an answer to a question of another connection answers none', async (t) => {
  const question = async ({ transport, ask, readLastId }: Awaited<ReturnType<typeof startTransport>>) => {
    const { answering } = await ask({ id: 1, method: 'tools/call', params: { name: 'unconfigured' } });
    const relatedRequestId = readLastId();
    await transport.send({ jsonrpc: '2.0', id: 0, method: 'elicitation/create', params: {} }, { relatedRequestId });
    const cancellation = { method: 'notifications/cancelled', params: { requestId: 0 } };
    await transport.send({ jsonrpc: '2.0', ...cancellation }, { relatedRequestId });
    const events = readEvents((await answering).body);
    const [question, cancelled] = [(await events.next()).value, (await events.next()).value];
    await events.return(undefined);
    const { id } = JSON.parse(question?.data ?? '');
    t.equal(JSON.parse(cancelled?.data ?? '').params.requestId, id);
    return id;
  };
  const [lost, open] = [await startTransport(t), await startTransport(t)];
  const [lostId, openId] = [await question(lost), await question(open)];
  for (const id of [lostId, 0, openId]) {
    await post(open.transport, { id, result: { action: 'decline' } });
    t.match(open.received.at(-1), { id: id === openId ? 0 : -1 }, `${id}`);
  }
});

t.test('an answer that comes first is JSON, which has no limit of size, and a stream otherwise', async (t) => {
  const { transport, ask, readLastId, answerLast } = await startTransport(t);
  const list = { id: 7, method: 'tools/list' };
  const first = await ask(list);
  await answerLast();
  const answer = await first.answering;
  t.match(answer.headers.get('content-type'), /^application\/json/);
  t.same(await answer.json(), { jsonrpc: '2.0', id: 7, result: {} });
  const second = await ask(list);
  await transport.send({ jsonrpc: '2.0', method: 'notifications/progress' }, { relatedRequestId: readLastId() });
  await answerLast();
  const events: unknown[] = [];
  for await (const { data } of readEvents((await second.answering).body)) events.push(JSON.parse(data));
  t.match(events, [{ method: 'notifications/progress' }, { id: 7, result: {} }]);
  const third = await ask(list);
  await transport.close();
  t.equal(await (await third.answering).text(), '', 'no answer, as that of a cancelled request');
});
