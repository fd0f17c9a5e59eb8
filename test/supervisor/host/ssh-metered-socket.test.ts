/** Bytes of an SSH host reach their reader in small slices, and no faster than the processor time of the account allows. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { TokenBuckets } from '../../../service/timing/token-bucket.ts';
import { MeteredSocket, openProcessorRates } from '../../../supervisor/host/ssh/metered-socket.ts';
import { listenOn } from '../../fixtures/listening-server.ts';

async function serve(test: Test, onConnection: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  return (await listenOn(test, server)).port;
}

function open(test: Test, port: number, accountId = 'ann', rates = openProcessorRates()): MeteredSocket {
  const socket = new MeteredSocket(accountId, rates);
  socket.on('error', () => undefined);
  socket.connectTo('127.0.0.1', port);
  test.teardown(() => socket.destroy());
  return socket;
}

t.test('all bytes arrive in small slices, also if the reader pauses, and both sides end', async (t) => {
  const port = await serve(t, (socket) => socket.pipe(socket));
  const socket = open(t, port);
  const sent = randomBytes(MIB);
  const slices: Buffer[] = [];
  let bytes = 0;
  socket.on('data', (slice: Buffer) => {
    slices.push(slice);
    bytes += slice.byteLength;
    if (slices.length % 10 === 0) {
      socket.pause();
      setImmediate(() => socket.resume());
    }
    if (bytes === MIB) socket.end();
  });
  socket.write(sent);
  await once(socket, 'close');
  t.ok(Buffer.concat(slices).equals(sent));
  t.ok(Math.max(...slices.map(({ byteLength }) => byteLength)) <= 4 * KIB);
});

t.test('a host that cannot be reached, or breaks the connection, is an error', async (t) => {
  const port = await serve(t, (socket) => socket.resetAndDestroy());
  for (const [refused, code] of [
    [port, 'ECONNRESET'],
    [1, 'ECONNREFUSED'],
  ] as const) {
    const socket = open(t, refused);
    socket.resume();
    const [error] = await once(socket, 'error');
    t.equal(error.code, code);
    t.ok(socket.destroyed);
  }
});

/** What parsing one slice costs the reader. */
const SLICE_MS = 10;
function burn(): void {
  const started = process.threadCpuUsage();
  for (;;) {
    const { user, system } = process.threadCpuUsage(started);
    if (user + system >= SLICE_MS * 1_000) return;
  }
}

t.test('a flood that is costly to read waits for the rate of its account, and no other account does', async (t) => {
  const clock = { now: 0 };
  const rates = new TokenBuckets({ burst: 100, perSecond: 50 }, () => clock.now);
  const port = await serve(t, (socket) => void socket.write(Buffer.alloc(MIB)));
  const read = (accountId: string, accountRates = rates) => {
    const reading = { bytes: 0, socket: open(t, port, accountId, accountRates) };
    reading.socket.on('data', (slice: Buffer) => {
      reading.bytes += slice.byteLength;
      burn();
    });
    return reading;
  };
  const burst = (100 / SLICE_MS) * 4 * KIB;
  const flood = read('ann');
  const second = read('ann');
  // Not more than a slice: on a slow machine, garbage collection may use up the rest of the rate.
  while (flood.bytes + second.bytes === 0) await turn();
  // Accounts take turns: meanwhile, the flood would be read as often.
  const unlimited = read(
    'cid',
    openProcessorRates(() => 0),
  );
  while (unlimited.bytes < 4 * burst) await turn();
  const other = read('ben');
  while (other.bytes === 0) await turn();
  // Each of the two may begin one more slice when the rate is almost used up.
  t.ok(flood.bytes + second.bytes <= burst + 8 * KIB, `${flood.bytes} and ${second.bytes} bytes were read`);
  const before = flood.bytes + second.bytes;
  while (flood.bytes + second.bytes <= before) {
    clock.now += 1_000;
    await turn();
  }
  t.pass('it is read on when time has passed');
});

t.test('the last bytes of a host that closes are read before the end, however long they wait', async (t) => {
  const sent = randomBytes(64 * KIB);
  const isSent = Promise.withResolvers<void>();
  const port = await serve(t, (connection) => connection.end(sent, () => isSent.resolve()));
  let now = 0;
  const rates = openProcessorRates(() => now);
  // The account has used up its rate.
  rates.get('ann').overdraw(10_000);
  const socket = open(t, port, 'ann', rates);
  const slices: Buffer[] = [];
  socket.on('data', (slice: Buffer) => slices.push(slice));
  await isSent.promise;
  for (let turns = 0; turns < 100; turns += 1) await turn();
  t.same(slices, []);
  now += 1_000_000;
  await once(socket, 'close');
  t.ok(Buffer.concat(slices).equals(sent));
});

t.test('a limit of arrived bytes reports once when it is exceeded, and not after it has ended', async (t) => {
  const port = await serve(t, (socket) => socket.pipe(socket));
  const socket = open(t, port);
  let bytes = 0;
  let reports = 0;
  socket.on('data', (slice: Buffer) => {
    bytes += slice.byteLength;
  });
  const exchange = async (size: number): Promise<void> => {
    const expected = bytes + size;
    socket.write(Buffer.alloc(size));
    while (bytes < expected) await turn();
  };
  const onTooMany = () => {
    reports += 1;
  };
  const endFirst = socket.limitArrivals(100, onTooMany);
  await exchange(100);
  t.equal(reports, 0);
  await exchange(1);
  await exchange(1);
  t.equal(reports, 1);
  endFirst();
  const endSecond = socket.limitArrivals(100, onTooMany);
  endFirst();
  await exchange(50);
  endSecond();
  await exchange(200);
  t.equal(reports, 1);
});
