/** `deploy/ha/haproxy.cfg` before servers of this test: what idle clients cannot do to others, and its answer if none is ready. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect, createServer as createTcpServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { Problem } from '../../sdk/contract/errors.ts';
import { PROBLEM_TYPE, problemBody } from '../../sdk/contract/problem-body.ts';
import { connect as connectClient } from '../../sdk/session/client.ts';
import { freePort } from '../fixtures/free-port.ts';
import { listenOn, serve } from '../fixtures/listening-server.ts';
import { eventually } from '../runner/eventually.ts';
import { whyMissing } from '../runner/programs.ts';

const CONFIGURATION = fileURLToPath(new URL('../../deploy/ha/haproxy.cfg', import.meta.url));
const HOST = '127.0.0.1';
/** Nothing listens there. */
const NOWHERE = `${HOST}:9`;
/** The `maxconn` of HAProxy, half of it to each frontend. */
const IDLE = 4_000;
/** HAProxy and this process have two sockets for each of the connections. */
const OPEN_FILES = 3 * IDLE;
/** A user and group of every Debian. */
const USER = 'daemon';
/** What HAProxy says where no server is ready. */
const DETAIL = 'No server of Bulkhead is available. Retry shortly.';
/** Of a tool. */
const RESULT = { content: [], isError: false };
const isRoot = process.getuid?.() === 0;

/** The limit of this process, which HAProxy inherits. */
function hasTooFewFiles(): string | false {
  const { userLimits } = process.report.getReport() as { userLimits: { open_files: { soft: number | string } } };
  const limit = userLimits.open_files.soft;
  return Number(limit) < OPEN_FILES && `needs ${OPEN_FILES} open files, ulimit -n is ${limit}`;
}

interface Backend {
  readonly port: number;
  endStreams(): void;
  /** Whether it answers the checks of HAProxy with 200. */
  setReady(isReady: boolean): void;
}

/**
 * Answers `/stream` with a line now and one when `end` was called, calls of tools with `RESULT`, others with what they sent. Breaks
 * the connections of `/break`.
 */
async function startBackend(t: Test): Promise<Backend> {
  const streams: (() => void)[] = [];
  let isReady = true;
  const { port } = await serve(t, (incoming, answer) => {
    const isCheck = incoming.url === '/readyz' || incoming.url === '/healthz';
    if (isCheck && !isReady) return void answer.writeHead(503).end();
    if (incoming.url === '/break') return void incoming.socket.destroy();
    if (incoming.url?.includes('/tools/')) return void answer.end(JSON.stringify(RESULT));
    if (incoming.url !== '/stream') return void text(incoming).then((body) => answer.end(`got ${body}`));
    answer.write('first ');
    streams.push(() => answer.end('last'));
  });
  return {
    port,
    endStreams: () => {
      for (const end of streams) end();
    },
    setReady: (value) => {
      isReady = value;
    },
  };
}

/** Greets everyone, as a server to which HAProxy only forwards bytes. */
async function startDatabase(t: Test): Promise<number> {
  const server = createTcpServer((socket) => socket.on('error', () => undefined).end('hello'));
  return (await listenOn(t, server)).port;
}

async function startHaproxy(t: Test, backend: number) {
  const ports = { database: await freePort(), api: await freePort(), sessions: await freePort() };
  const env = {
    PATH: process.env.PATH,
    ...(isRoot ? { HAPROXY_USER: USER } : {}),
    DATABASE_BIND: `${HOST}:${ports.database}`,
    POSTGRES_1: `${HOST}:${await startDatabase(t)}`,
    POSTGRES_2: NOWHERE,
    PATRONI_1_PORT: String(backend),
    PATRONI_2_PORT: '9',
    API_BIND: `${HOST}:${ports.api}`,
    API_1: `${HOST}:${backend}`,
    API_1_OPS_PORT: String(backend),
    API_2: NOWHERE,
    API_2_OPS_PORT: '9',
    SESSIONS_BIND: `${HOST}:${ports.sessions}`,
    SUPERVISOR_1: `${HOST}:${backend}`,
    SUPERVISOR_1_OPS_PORT: String(backend),
    SUPERVISOR_2: NOWHERE,
    SUPERVISOR_2_OPS_PORT: '9',
    SUPERVISOR_3: NOWHERE,
    SUPERVISOR_3_OPS_PORT: '9',
  };
  const child = spawn('haproxy', ['-db', '-f', CONFIGURATION], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  const output = text(child.stderr);
  const closed = once(child, 'close');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await closed;
    if (!t.passing()) t.comment(await output);
  });
  const open = (path: string, port: number, method = 'GET') =>
    request({ host: HOST, port, path, method, agent: false });
  const ask = async (port: number): Promise<number | undefined> => {
    const asked = open('/', port).end();
    const [answer] = await once(asked, 'response');
    await text(answer);
    return answer.statusCode;
  };
  // At first it counts the servers that are missing as alive, too.
  for (const port of [ports.api, ports.sessions])
    await eventually(async () => (await ask(port).catch(() => null)) === 200);
  return { pid: child.pid, ports, open, ask };
}

async function openIdle(t: Test, port: number, count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, HOST).on('error', () => undefined));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

const skip = whyMissing('haproxy') || hasTooFewFiles();
t.test(
  'idle clients leave connections for the database, and uploads and streams take longer than they',
  { skip },
  async (t) => {
    const { port: backend, endStreams } = await startBackend(t);
    const { pid, ports, open, ask } = await startHaproxy(t, backend);
    if (isRoot) t.match(readFileSync(`/proc/${pid}/status`, 'utf8'), /^Uid:\t[1-9].*\nGid:\t[1-9]/m, 'not as root');
    const upload = open('/', ports.api, 'POST');
    upload.write('begin ');
    const [stream] = await once(open('/stream', ports.sessions).end(), 'response');
    const streamed = text(stream);

    const idle = [await openIdle(t, ports.api, IDLE / 2), await openIdle(t, ports.sessions, IDLE / 2)];
    t.equal(await text(connect(ports.database, HOST)), 'hello');
    const first = idle[0]?.[0] as Socket;
    t.match(await text(first), /^HTTP\/1\.[01] 408 /, 'a client without a request is refused');
    t.equal(await ask(ports.api), 200);
    t.equal(await ask(ports.sessions), 200);

    const uploaded = once(upload.end('end'), 'response');
    t.equal(await text((await uploaded)[0]), 'got begin end');
    endStreams();
    t.equal(await streamed, 'first last');
  },
);

t.test('where no server is ready, clients learn that nothing was sent, and repeat every call', { skip }, async (t) => {
  const backend = await startBackend(t);
  const { ports, ask } = await startHaproxy(t, backend.port);
  const broken = `http://${HOST}:${ports.sessions}/break`;
  for (const method of ['GET', 'POST'])
    t.equal((await fetch(broken, { method })).status, 502, 'not 503, because the request was sent');
  backend.setReady(false);
  for (const port of [ports.api, ports.sessions]) {
    await eventually(async () => (await ask(port)) === 503);
    const answer = await fetch(`http://${HOST}:${port}/`);
    t.equal(answer.headers.get('content-type'), PROBLEM_TYPE);
    t.equal(answer.headers.get('retry-after'), '1');
    const { requestId, ...body } = problemBody(new Problem('unavailable', DETAIL), 'not known to HAProxy');
    t.same(await answer.json(), body, 'as of the service itself');
  }
  const statuses: number[] = [];
  const client = connectClient({
    url: `http://${HOST}:${ports.sessions}`,
    token: 'token',
    fetch: async (...request) => {
      const answer = await fetch(...request);
      statuses.push(answer.status);
      backend.setReady(true);
      return answer;
    },
  });
  const result = await client.open('s').callTool('counter__add', { by: 1 });
  t.same(result, RESULT);
  t.equal(statuses.at(0), 503);
  t.equal(statuses.at(-1), 200);
});
