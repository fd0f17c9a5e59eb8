/** Bodies of webhook requests arrive whole, in bounded memory, and leave no file. */
import { once } from 'node:events';
import { type FileHandle, open, readdir, readlink, rm } from 'node:fs/promises';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import t from 'tap';
import { IncomingBodies } from '../../../api/ingress/incoming-bodies.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { listenOn } from '../../fixtures/listening-server.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { send } from './webhook-fixture.ts';

const folder = await temporaryFolder(t);
const bodies = await IncomingBodies.open(folder);
/** The methods of all open files: Node does not export their class. */
const openFile = await findPrototype();
const stored: Buffer[] = [];
let isStoring = false;
let overlaps = 0;
const server = createServer(async (request, response) => {
  // The address is found before, and the body may arrive meanwhile.
  await new Promise(setImmediate);
  try {
    await bodies.receive(request, String(request.headers.account ?? 'ann'), async (body) => {
      if (isStoring && body.byteLength > MIB) overlaps += 1;
      isStoring = true;
      await new Promise(setImmediate);
      stored.push(body);
      isStoring = false;
    });
    response.end('{}');
  } catch (error) {
    const { status, message, retryAfter } = error as Problem;
    response.writeHead(error instanceof Problem ? status : 500, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ message, retryAfter }));
    server.emit('refused', message);
  }
});
const { port } = await listenOn(t, server);

async function findPrototype(): Promise<FileHandle> {
  const probe = await open(join(folder, 'probe'), 'w');
  await probe.close();
  await rm(join(folder, 'probe'));
  return Object.getPrototypeOf(probe);
}

const bytesOf = (count: number): Buffer => Buffer.alloc(count, Buffer.from('a pattern of 23 bytes.\n'));

t.test('a body of any size is stored exactly and leaves no file', async (t) => {
  for (const size of [0, 1, 64 * KIB, 64 * KIB + 1, MIB, 5 * MIB]) {
    const body = bytesOf(size);
    t.equal((await send({ port }, body)).status, 200);
    t.ok(stored.pop()?.equals(body), `${size} bytes`);
  }
  t.same(await readdir(folder), []);
});

t.test('a larger body is refused, announced or not', async (t) => {
  const announced = await send({ port }, bytesOf(5 * MIB + 1));
  t.equal(announced.status, 413);
  t.equal(announced.body.message, 'The body is larger than 5242880 bytes, the limit of this address.');
  const chunked = httpRequest({ host: '127.0.0.1', port, method: 'POST' }).on('error', () => undefined);
  chunked.write(bytesOf(5 * MIB));
  chunked.end('x');
  const [response] = await once(chunked, 'response');
  t.equal(response.statusCode, 413);
  response.resume();
});

t.test('a body in tiny chunks is stored exactly, and written in large pieces', async (t) => {
  const writes = t.capture(openFile, 'writev', openFile.writev);
  const body = bytesOf(200 * KIB);
  const chunk = (at: number) => Buffer.concat([Buffer.from('14\r\n'), body.subarray(at, at + 20), Buffer.from('\r\n')]);
  const chunks = Array.from({ length: body.byteLength / 20 }, (_, index) => chunk(index * 20));
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  const answered = once(socket, 'data');
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
  socket.write(Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')]));
  t.match((await answered)[0], /^HTTP\/1\.1 200 /);
  socket.destroy();
  t.ok(stored.pop()?.equals(body));
  const written = writes().map(({ args }) => (args as unknown as readonly [readonly Buffer[]])[0]);
  t.equal(written.length, 4);
  t.ok(
    written.every((chunks) => chunks.length < 150),
    'what waits takes about its size in memory',
  );
});

t.test('half-sent bodies of an account are bounded, and gone with their connections', async (t) => {
  const head = (bytes: number) => `POST / HTTP/1.1\r\nhost: x\r\naccount: ann\r\ncontent-length: ${bytes}\r\n\r\n`;
  const sockets = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
  const gone: unknown[] = [];
  server.on('refused', (reason) => gone.push(reason));
  const refused = once(server, 'refused');
  for (const socket of sockets) socket.write(Buffer.concat([Buffer.from(head(5 * MIB)), bytesOf(4.5 * MIB)]));
  t.match((await refused)[0], /^This account already has 32 MiB of requests in flight\./);
  t.equal(
    (await send({ port, headers: { account: 'ben' } }, bytesOf(2 * MIB))).status,
    200,
    'another account sends on',
  );
  t.same(await readdir(folder), [], 'no file has a name');
  for (const socket of sockets) socket.destroy();
  while (gone.length < sockets.length) await once(server, 'refused');
  t.equal((await send({ port }, bytesOf(5 * MIB))).status, 200, 'the share is free again');
});

t.test('incomplete bodies of an account are bounded in number, too', async (t) => {
  const head = 'POST / HTTP/1.1\r\nhost: x\r\naccount: ann\r\ncontent-length: 2\r\n\r\n';
  const gone: unknown[] = [];
  const onRefused = (reason: unknown) => gone.push(reason);
  server.on('refused', onRefused);
  const sockets: Socket[] = [];
  // Two thirds of the places of a process.
  for (let count = 0; count < 667; count += 1) {
    const arrived = once(server, 'request');
    sockets.push(connect(port, '127.0.0.1', () => sockets.at(-1)?.write(`${head}[`)).on('error', () => undefined));
    await arrived;
  }
  t.same(gone, []);
  const refused = connect(port, '127.0.0.1').setEncoding('latin1');
  refused.write(`${head}[`);
  const [answer] = await once(refused, 'data');
  t.match(answer, /^HTTP\/1\.1 429 /);
  t.same(gone, [
    'This process is receiving 667 incomplete webhook bodies, 667 of them from this account. Retry after 1 s.',
  ]);
  t.equal(
    (await send({ port, headers: { account: 'ann' } }, Buffer.from('[]'))).status,
    200,
    'whole bodies need no place',
  );
  t.equal((await send({ port, headers: { account: 'ben' } }, Buffer.from('[]'))).status, 200);
  const [slow] = sockets as [Socket];
  const answered = once(slow.setEncoding('latin1'), 'data');
  slow.write(']');
  t.match((await answered)[0], /^HTTP\/1\.1 200 /, 'a slow body is stored when it has arrived');
  for (const socket of [refused, ...sockets]) socket.destroy();
  // One was refused, and one was stored.
  while (gone.length < sockets.length) await once(server, 'refused');
  server.off('refused', onRefused);
});

t.test('a body whose client leaves while its file is opened leaves no open file', async (t) => {
  const writes = t.capture(openFile, 'writev', openFile.writev);
  const request = Object.assign(new Readable({ read: () => undefined }), { headers: {} });
  const store = async () => void t.fail('it is not complete');
  const received = bodies.receive(request as unknown as IncomingMessage, 'ann', store);
  // After the listener that opens the file.
  request.once('data', () => request.destroy());
  request.push(bytesOf(65 * KIB));
  await t.rejects(received, { message: "The request's body ended before it was complete." });
  t.equal(writes().length, 1, 'it waited for what had begun');
  const descriptors = await readdir('/proc/self/fd');
  const paths = await Promise.all(descriptors.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
  t.same(
    paths.filter((path) => path.startsWith(folder)),
    [],
    'Node ends a process that forgets an open file',
  );
});

t.test('a body of which the disk took a part is refused', async (t) => {
  // What Node answers where the disk fills up in the middle of a write.
  t.capture(openFile, 'writev', async () => ({ bytesWritten: 0 }) as never);
  const before = stored.length;
  const { status, body } = await send({ port }, bytesOf(65 * KIB));
  t.equal(status, 500);
  t.match(body.message, /^0 of 66560 bytes of a webhook body are on disk/);
  t.equal(stored.length, before);
});

t.test('large bodies are stored one after the other', async (t) => {
  stored.length = 0;
  const answers = await Promise.all(Array.from({ length: 6 }, () => send({ port }, bytesOf(2 * MIB))));
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 200, 200, 200, 200],
  );
  t.equal(stored.length, 6);
  t.equal(overlaps, 0);
});
