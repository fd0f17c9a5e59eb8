/** An open inspector against debuggers that violate the protocol of WebSockets. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import t from 'tap';
import { WebSocketServer } from 'ws';
import { Inspection } from '../../../supervisor/children/inspector/inspection.ts';

const HANDSHAKE = [
  'GET / HTTP/1.1',
  'Host: localhost',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  '',
  '',
].join('\r\n');
/** All reserved bits are set. */
const MALFORMED_FRAME = Buffer.from([0xff, 0xff]);

t.test('a malformed frame of a debugger that is refused ends its connection, and nothing else', async (t) => {
  // Without a child, every debugger is refused.
  const inspection = new Inspection('token', () => undefined);
  const sockets = new WebSocketServer({ noServer: true });
  const server = createServer();
  server.on('upgrade', (request, socket, head) =>
    sockets.handleUpgrade(request, socket, head, (client) => inspection.attach(client)),
  );
  server.listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const debuggerSocket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  debuggerSocket.write(HANDSHAKE);
  const [answer] = await once(debuggerSocket, 'data');
  t.match(String(answer), /^HTTP\/1\.1 101 /);
  debuggerSocket.resume();
  debuggerSocket.write(MALFORMED_FRAME);
  await once(debuggerSocket, 'close');
});
