/** Zips of versions: a bounded number at once, shared by account, and not compressed. */
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { mock } from 'node:test';
import t from 'tap';
import { MIB, SECOND } from '../../../sdk/contract/limits.ts';
import { amount } from '../../runner/soak.ts';
import { type Client, listen, startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL } from '../package/packages.ts';

/** More than the buffers of both sockets hold, so an archive that is not read stays under way. */
const FILE_BYTES = 16 * MIB;
/** What one account may take of the eight places. */
const SHARE = 6;
const ROUTES = ['archive', 'agent-plugin'];

const api = await startApiFixture(t, { introspect: introspectsMinimal });
const port = await listen(api);
const [ann, ben] = [await api.user('ann'), await api.user('ben')];
const agent = new Agent();
t.teardown(() => agent.destroy());

/** Publishes a version with one large skill file. @returns the path of the version */
async function publish(client: Client, slug: string): Promise<string> {
  const { id } = (await client.post('/plugins', { slug, displayName: slug })).body;
  const made = await client.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  const { sha256 } = await api.services.blobs.put(Buffer.alloc(FILE_BYTES));
  await api.pool.query(
    `INSERT INTO version_files (version_id, path, sha256, size_bytes) VALUES ($1, 'skills/zeros/zeros.bin', $2, $3)`,
    [made.body.id, sha256, FILE_BYTES],
  );
  return `/api/plugins/${id}/versions/${made.body.id}`;
}
const annsVersion = await publish(ann, 'anns');
const bensVersion = await publish(ben, 'bens');

/** Requests an archive over a connection of its own, and reads none of its body. */
async function open({ token }: Client, path: string): Promise<IncomingMessage> {
  const outgoing = request({ host: '127.0.0.1', port, path, agent, headers: { authorization: `Bearer ${token}` } });
  const [incoming] = (await once(outgoing.end(), 'response')) as [IncomingMessage];
  return incoming;
}
/** The next archive of the account, as soon as the server has closed the response that holds its place. */
async function openNext(client: Client, path: string): Promise<IncomingMessage> {
  for (;;) {
    const incoming = await open(client, path);
    if (incoming.statusCode !== 429) return incoming;
    await buffer(incoming);
  }
}

t.test('an account beyond its share of places is refused, until an archive of it ends', async (t) => {
  const under: IncomingMessage[] = [];
  t.teardown(() => {
    for (const incoming of under) incoming.destroy();
  });
  for (let count = 0; count < SHARE; count += 1) {
    const incoming = await open(ann, `${annsVersion}/${ROUTES[count % ROUTES.length]}`);
    t.equal(incoming.statusCode, 200);
    under.push(incoming);
  }
  for (const route of ROUTES) {
    const refused = await open(ann, `${annsVersion}/${route}`);
    t.match(refused, { statusCode: 429, headers: { 'retry-after': '5' } });
    t.match(JSON.parse(String(await buffer(refused))), {
      detail: 'This process is sending 6 archives, 6 of them from this account. Retry after 5 s.',
    });
  }
  const other = await open(ben, `${bensVersion}/agent-plugin`);
  t.equal(other.statusCode, 200, 'another account has a place');
  t.ok((await buffer(other)).byteLength > FILE_BYTES, 'it is not compressed');
  const [first, second] = under as [IncomingMessage, IncomingMessage];
  t.ok((await buffer(first)).byteLength > FILE_BYTES);
  under.push(await openNext(ann, `${annsVersion}/archive`));
  t.equal(under.at(-1)?.statusCode, 200, 'an archive that was sent frees its place');
  second.destroy();
  under.push(await openNext(ann, `${annsVersion}/agent-plugin`));
  t.equal(under.at(-1)?.statusCode, 200, 'a client that disconnects frees its place');
});

/** Reads at least so many bytes. @returns how many */
async function read(incoming: IncomingMessage, leastBytes: number): Promise<number> {
  let bytes = 0;
  while (bytes < leastBytes) {
    const chunk: Buffer | null = incoming.read();
    if (chunk === null) await once(incoming, 'readable');
    else bytes += chunk.byteLength;
  }
  return bytes;
}

/** Takes all places of an account, and reads nothing. */
const openAlone = () => Promise.all(Array.from({ length: SHARE }, () => open(ann, `${annsVersion}/archive`)));

/** The same over one connection, whose first answer does not end. */
async function openBehindStream() {
  const socket = connect(port, '127.0.0.1').pause();
  const paths = ['/api/plugin-logs/stream', ...Array<string>(SHARE).fill(`${annsVersion}/archive`)];
  for (const path of paths)
    socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${ann.token}\r\n\r\n`);
  for (;;) {
    const incoming = await open(ann, `${annsVersion}/archive`);
    if (incoming.statusCode === 429) break;
    incoming.destroy();
  }
  return [socket];
}

t.test('a client that reads too slowly loses its place, and one that reads enough keeps it', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const endWindow = () => mock.timers.tick(120 * SECOND);
  const fast = await open(ben, `${bensVersion}/archive`);
  let bytes = 0;
  for (let windows = 0; windows < 2; windows += 1) {
    bytes += await read(fast, FILE_BYTES / 3);
    endWindow();
  }
  t.ok(bytes + (await buffer(fast)).byteLength > FILE_BYTES);
  const under: { destroy(): void }[] = [];
  t.teardown(() => {
    for (const one of under) one.destroy();
  });
  for (const hold of amount({ quick: [openAlone], soak: [openAlone, openBehindStream] })) {
    under.push(...(await hold()));
    let next: IncomingMessage;
    do {
      // What fits into the buffers counts as read.
      endWindow();
      next = await open(ann, `${annsVersion}/archive`);
      under.push(next);
    } while (next.statusCode === 429);
    t.equal(next.statusCode, 200, 'a place is free although none was read to its end');
  }
});

t.test('an archive that cannot be sent takes no place', async (t) => {
  for (let count = 0; count < 2 * SHARE; count += 1) {
    const incoming = await open(ben, `${annsVersion}/archive`);
    t.equal(incoming.statusCode, 404);
    await buffer(incoming);
  }
  await api.pool.query(`DELETE FROM version_files WHERE version_id = split_part($1, '/', 6)`, [bensVersion]);
  for (let count = 0; count < 2 * SHARE; count += 1) {
    const incoming = await open(ben, `${bensVersion}/archive`);
    t.equal(incoming.statusCode, 410);
    await buffer(incoming);
  }
});
