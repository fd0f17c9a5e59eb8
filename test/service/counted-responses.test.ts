/** Each request is counted once for the metrics, also one whose client leaves before the answer. */
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { createApplication } from '../../service/http/application.ts';
import { line } from './malformed-requests.ts';

type Counted = readonly [method: string, route: string | undefined, status: number];

/** Emits `counted` for each response, and `waiting` when a request waits for its answer. */
const progress = new EventEmitter();
const counted: Counted[] = [];
const app = createApplication({
  bodyMaxBytes: 1,
  server: {},
  onResponse: (...[method, route, status, ms]) => {
    t.ok(ms >= 0);
    counted.push([method, route, status]);
    progress.emit('counted');
  },
});
app.get('/known', async () => ({ ok: true }));
app.get('/waits', async ({ raw }) => {
  progress.emit('waiting');
  await once(raw, 'close');
  return { ok: 'too late' };
});
app.get('/stream', (_request, reply) => {
  const stream = new Readable({ read: () => undefined });
  stream.push('begun');
  return reply.send(stream);
});
const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }));
t.teardown(() => app.close());

const begin = (bytes: string) => {
  const socket = connect(Number(url.port), '127.0.0.1').setEncoding('latin1');
  socket.write(bytes);
  return socket;
};
const CLOSE = 'Connection: close';

t.test('answers are counted by their status', async (t) => {
  await text(begin(line('GET /known', CLOSE)));
  await text(begin(line('GET /unknown', CLOSE)));
  await text(begin(`GET /known HTTP/1.1\r\n${CLOSE}\r\n\r\n`));
  t.same(counted.splice(0), [
    ['GET', '/known', 200],
    ['GET', undefined, 404],
    ['GET', '/known', 400],
  ]);
});

t.test('a request whose client leaves before the answer has status 499', async (t) => {
  const waiting = once(progress, 'waiting');
  const socket = begin(line('GET /waits'));
  await waiting;
  const left = once(progress, 'counted');
  socket.destroy();
  await left;
  t.same(counted.splice(0), [['GET', '/waits', 499]]);
});

t.test('a stream that its client closes keeps its status', async (t) => {
  const socket = begin(line('GET /stream'));
  await once(socket, 'data');
  const left = once(progress, 'counted');
  socket.destroy();
  await left;
  t.same(counted.splice(0), [['GET', '/stream', 200]]);
});
