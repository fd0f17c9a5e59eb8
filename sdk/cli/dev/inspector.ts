/**
 * The draft's inspector, where debuggers of this machine look for one: `node inspect`, editors and browsers find it at
 * 127.0.0.1 as they find a local Node, and everything they say goes to the service.
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
import { pause } from '../../session/pause.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import type { Draft } from './draft.ts';

/** Names that a browser cannot be made to believe are somebody else's: the rest may be a page that rebinds its name. */
const LOCAL_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;
const PAUSE_MS = 1_000;

/** Keeps it open until the signal. @throws CommandError: the port is taken, or the service refuses */
export async function openInspector(context: Context, draft: Draft, port: number): Promise<void> {
  const { signal, output } = context;
  const base = await context.sessionUrl();
  const id = randomUUID();
  let target: string | null = null;
  const server = serveTargets({ id, title: `${draft.slug} (draft)`, target: () => target });
  const opened = await listen(server, port);
  try {
    for (;;) {
      for await (const { type, data } of draft.trials.inspect(await draft.installed(signal))) {
        const said = JSON.parse(data || '{}') as { path?: string; reason?: string };
        if (type === 'open' && said.path) {
          target = `${base}${said.path}`;
          const address = `ws://127.0.0.1:${opened}/${id}`;
          output.item(
            { inspector: address },
            `inspector ${address} (chrome://inspect, node inspect 127.0.0.1:${opened})`,
          );
        } else if (type !== 'open') {
          output.item({ inspector: type, ...said }, `inspector ${type}${said.reason ? `: ${said.reason}` : ''}`);
        }
      }
      target = null;
      await pause(PAUSE_MS, signal);
    }
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

async function listen(server: Server, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', () =>
      reject(new CommandError('failed', `The port ${port} is taken: choose another one with --inspect-port.`)),
    );
    server.listen(port, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

interface Target {
  readonly id: string;
  readonly title: string;
  /** Of the service; null while there is none. */
  target(): string | null;
}

/** The discovery that Node has, and one WebSocket that is passed on as it is. */
function serveTargets(of: Target): Server {
  const server = createServer((request, reply) => answer(of, request, reply));
  server.on('upgrade', (request, socket: Duplex, head) => {
    const target = of.target();
    const isMeant = request.url === `/${of.id}` && isLocal(request);
    if (isMeant && target !== null) passOn(target, request, socket, head);
    else socket.end('HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
  });
  return server;
}

const isLocal = ({ headers }: IncomingMessage): boolean => LOCAL_HOST.test(headers.host ?? '');

function answer({ id, title }: Target, request: IncomingMessage, reply: ServerResponse): void {
  const { host } = request.headers;
  const ws = `${host}/${id}`;
  const answers: Readonly<Record<string, unknown>> = {
    '/json/version': { Browser: 'bulkhead', 'Protocol-Version': '1.3' },
    ...Object.fromEntries(
      ['/json', '/json/list'].map((path) => [
        path,
        [
          {
            ...{ id, title, type: 'node', description: 'a draft in Bulkhead', url: 'file://', faviconUrl: '' },
            devtoolsFrontendUrl: `devtools://devtools/bundled/js_app.html?experiments=true&v8only=true&ws=${ws}`,
            webSocketDebuggerUrl: `ws://${ws}`,
          },
        ],
      ]),
    ),
  };
  const found = isLocal(request) ? answers[(request.url ?? '').replace(/\/$/, '')] : undefined;
  reply.writeHead(found ? 200 : 404, { 'content-type': 'application/json; charset=UTF-8', connection: 'close' });
  reply.end(JSON.stringify(found ?? {}));
}

/** Only what makes it a WebSocket goes with it: the address itself says who may. */
const HANDSHAKE = ['connection', 'upgrade', 'sec-websocket-key', 'sec-websocket-version'];

function passOn(target: string, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const headers = Object.fromEntries(HANDSHAKE.map((name) => [name, request.headers[name] ?? '']));
  const ask = target.startsWith('https:') ? secureRequest : plainRequest;
  const upstream = ask(target, { headers });
  upstream.on('upgrade', ({ rawHeaders }, far: Duplex, farHead: Buffer) => {
    const lines = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1]}`] : []));
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`);
    socket.write(farHead);
    far.write(head);
    socket.pipe(far).pipe(socket);
    far.on('error', () => socket.destroy());
    socket.on('error', () => far.destroy());
    socket.on('close', () => far.destroy());
  });
  upstream.on('response', (response) => {
    response.resume();
    socket.end('HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
  });
  upstream.on('error', () => socket.destroy());
  upstream.end();
}
