/** An open inspector with debuggers that send malformed and large messages. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { Duplex } from 'node:stream';
import t, { type Test } from 'tap';
import { WebSocketServer } from 'ws';
import { decodeText, FrameBuffer } from '../../../sandbox-child/frame.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import type { Child } from '../../../supervisor/children/child.ts';
import { COMMAND_MAX_BYTES, Inspection } from '../../../supervisor/children/inspector/inspection.ts';
import { listenOn } from '../../fixtures/listening-server.ts';
import { eventually } from '../../runner/eventually.ts';

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

/** Serves an inspection. @returns its port */
async function serve(t: Test, inspection: Inspection): Promise<number> {
  const sockets = new WebSocketServer({ noServer: true });
  const server = createServer();
  server.on('upgrade', (request, socket, head) =>
    sockets.handleUpgrade(request, socket, head, (client) => inspection.attach(client)),
  );
  return (await listenOn(t, server)).port;
}

t.test('a malformed frame of a debugger that is refused ends its connection, and nothing else', async (t) => {
  // Without a child, every debugger is refused.
  const port = await serve(t, new Inspection('token', () => undefined));
  const debuggerSocket = connect(port, '127.0.0.1');
  debuggerSocket.write(HANDSHAKE);
  const [answer] = await once(debuggerSocket, 'data');
  t.match(String(answer), /^HTTP\/1\.1 101 /);
  debuggerSocket.resume();
  debuggerSocket.write(MALFORMED_FRAME);
  await once(debuggerSocket, 'close');
});

t.test('large commands reach the child, in order with small ones', async (t) => {
  const frames = new FrameBuffer(COMMAND_MAX_BYTES);
  const received: string[] = [];
  const stream = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      frames.push(chunk);
      for (let text = frames.readFrame(decodeText); text !== null; text = frames.readFrame(decodeText))
        received.push(text);
      done();
    },
  });
  const child = { inspector: stream, ended: new Promise(() => undefined), holdDeadlines: () => undefined };
  const inspection = new Inspection('token', () => undefined);
  inspection.serve(child as unknown as Child);
  const client = new WebSocket(`ws://127.0.0.1:${await serve(t, inspection)}`);
  t.teardown(() => client.close());
  await once(client, 'open');
  const list = '{},'.repeat(MIB).slice(0, -1);
  const sent = [
    `{"id":1,"method":"Debugger.setScriptSource","params":{"list":[${list}]}}`,
    '{"id":2,"method":"Debugger.resume"}',
  ];
  for (const text of sent) client.send(text);
  // The first message resets the session.
  await eventually(async () => received.length === 3);
  t.ok(received[1] === sent[0] && received[2] === sent[1]);
  inspection.end('the test is over');
});
