/**
 * Serves the draft's inspector on 127.0.0.1, so that `node inspect`, editors and browsers find it like a local Node
 * process. The WebSocket is forwarded to the service.
 */
import { randomUUID } from 'node:crypto';
import {
  createServer,
  type IncomingMessage,
  request as plainRequest,
  type Server,
  type ServerResponse,
} from 'node:http';
import { request as secureRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { ConnectionLostError } from '../../session/transport.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import type { Draft } from './draft.ts';

/** Other host names are refused as a defence against DNS rebinding. */
const LOCAL_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;

/**
 * Serves the inspector until the signal aborts.
 *
 * @throws CommandError if the port is taken, BulkheadError if the service refuses
 */
export async function openInspector(context: Context, draft: Draft, port: number): Promise<void> {
  const { signal, output } = context;
  const base = await context.getSessionUrl();
  const id = randomUUID();
  let target: string | null = null;
  const server = createInspectorServer({ id, title: `${draft.slug} (draft)`, getUrl: () => target });
  const boundPort = await listen(server, port);
  let isReported = false;
  const closeTarget = (error?: unknown): void => {
    target = null;
    // A connection that broke says nothing; the next attempt says why if the service is away. Then all fail alike.
    if (error === undefined || error instanceof ConnectionLostError || isReported) return;
    isReported = true;
    void context.explainError(error).then(({ code, message }) => {
      const next = output.paint.dim('The inspector opens as soon as the service accepts it.');
      output.printItem({ error: { code, message } }, `${output.paint.red('error')} ${message}\n${next}`);
    });
  };
  try {
    const installationId = await draft.waitForInstallation(signal);
    for await (const { type, data } of draft.testSession.inspect(installationId, closeTarget)) {
      const event = JSON.parse(data) as { path?: string; reason?: string };
      if (type === 'open' && event.path) {
        target = `${base}${event.path}`;
        isReported = false;
        const address = `ws://127.0.0.1:${boundPort}/${id}`;
        const line = `inspector ${address} (chrome://inspect, node inspect 127.0.0.1:${boundPort})`;
        output.printItem({ inspector: address }, line);
      } else if (type !== 'open') {
        output.printItem({ inspector: type, ...event }, `inspector ${type}${event.reason ? `: ${event.reason}` : ''}`);
      }
    }
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

async function listen(server: Server, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', () =>
      reject(new CommandError('failed', `Port ${port} is in use. Choose another one with --inspect-port.`)),
    );
    server.listen(port, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

interface InspectorTarget {
  readonly id: string;
  readonly title: string;
  /** Address of the service's WebSocket; null while the inspector is closed. */
  getUrl(): string | null;
}

/** Serves Node's discovery endpoints and forwards one WebSocket. */
function createInspectorServer(target: InspectorTarget): Server {
  const server = createServer((request, response) => sendDiscovery(target, request, response));
  server.on('upgrade', (request, socket: Duplex, head) => {
    // A debugger that is killed resets its connection.
    socket.on('error', () => socket.destroy());
    const url = target.getUrl();
    const isKnown = request.url === `/${target.id}` && isLocal(request);
    if (isKnown && url !== null) forwardWebSocket(url, request, socket, head);
    else socket.end('HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
  });
  return server;
}

const isLocal = ({ headers }: IncomingMessage): boolean => LOCAL_HOST.test(headers.host ?? '');

function sendDiscovery({ id, title }: InspectorTarget, request: IncomingMessage, response: ServerResponse): void {
  const socketAddress = `${request.headers.host}/${id}`;
  const targets = [
    {
      id,
      title,
      type: 'node',
      description: 'a draft in Bulkhead',
      url: 'file://',
      faviconUrl: '',
      devtoolsFrontendUrl: `devtools://devtools/bundled/js_app.html?experiments=true&v8only=true&ws=${socketAddress}`,
      webSocketDebuggerUrl: `ws://${socketAddress}`,
    },
  ];
  const documents: Readonly<Record<string, unknown>> = {
    '/json/version': { Browser: 'bulkhead', 'Protocol-Version': '1.3' },
    '/json': targets,
    '/json/list': targets,
  };
  const found = isLocal(request) ? documents[(request.url ?? '').replace(/\/$/, '')] : undefined;
  response.writeHead(found ? 200 : 404, { 'content-type': 'application/json; charset=UTF-8', connection: 'close' });
  response.end(JSON.stringify(found ?? {}));
}

/** The only headers that are forwarded. The address itself authorizes the connection. */
const HANDSHAKE = ['connection', 'upgrade', 'sec-websocket-key', 'sec-websocket-version'];

function forwardWebSocket(url: string, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const headers = Object.fromEntries(HANDSHAKE.map((name) => [name, request.headers[name] ?? '']));
  const send = url.startsWith('https:') ? secureRequest : plainRequest;
  const upstream = send(url, { headers });
  socket.on('close', () => upstream.destroy());
  upstream.on('upgrade', ({ rawHeaders }, upstreamSocket: Duplex, upstreamHead: Buffer) => {
    upstreamSocket.on('error', () => socket.destroy());
    socket.on('close', () => upstreamSocket.destroy());
    const lines = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${rawHeaders[index + 1]}`] : []));
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`);
    socket.write(upstreamHead);
    upstreamSocket.write(head);
    socket.pipe(upstreamSocket).pipe(socket);
  });
  upstream.on('response', (response) => {
    response.resume();
    socket.end('HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
  });
  upstream.on('error', () => socket.destroy());
  upstream.end();
}
