/** Attacks of a plugin, a DNS server and a web server on `host.http.fetch`, and their results. */
import { randomBytes } from 'node:crypto';
import { createServer as createSecureServer } from 'node:https';
import { createServer, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Readable, Transform } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { constants, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { z } from 'zod';
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { HostCallRefusal } from '../../../supervisor/children/child-errors.ts';
import { BodyMemory } from '../../../supervisor/host/http/body-memory.ts';
import { type Opened, send } from '../../../supervisor/host/http/exchange.ts';
import { RequestRates } from '../../../supervisor/host/http/request-rates.ts';
import { ResultTurns } from '../../../supervisor/host/result-turns.ts';
import { type ListeningServer, listenOn, serve } from '../../fixtures/listening-server.ts';
import { eventually } from '../../runner/eventually.ts';
import { whyMissing } from '../../runner/programs.ts';
import { amount, listCases } from '../../runner/soak.ts';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../children/jailed-child.ts';
import { startDns } from './dns-server.ts';
import { makeCertificate, type Plugin, pluginWith } from './http-target.ts';

const PUBLIC = '8.8.8.8';
const MIB = 1024 * 1024;

/** A plugin that may reach a server of ours under a name. */
async function reaching(
  t: Test,
  server: ListeningServer,
  hosts = ['api.test'],
  options: Parameters<typeof pluginWith>[2] = {},
): Promise<Plugin> {
  const plugin = await pluginWith(t, hosts, options);
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  return plugin;
}
const isIdle = (server: ListeningServer) => eventually(async () => (await server.open()) === 0);

t.test('DNS rebinding: the request connects to the checked address', async (t) => {
  const hosts: (string | undefined)[] = [];
  const inside = await serve(t, (request, response) => {
    hosts.push(request.headers.host);
    response.end('inside');
  });
  const plugin = await pluginWith(t, ['*.test']);
  const names: string[] = [];
  const looks = await eventually(async () => {
    const name = `evil-${names.length}.test`;
    names.push(name);
    plugin.dns.set(name, [PUBLIC], ['127.0.0.1']);
    await t.rejects(plugin.fetch(`http://${name}:${inside.port}/`, { timeoutMs: 300 }), { name: 'HostError' });
    const asked = plugin.dns.queries.filter((query) => query.endsWith(` ${name}`));
    // On a busy machine the time may have passed before it asked.
    return asked.length > 1 && asked.map((query) => query.split(' ')[0]);
  });
  // Not all connections: a client in another process may still look for the server that had this port before.
  t.notOk(names.some((name) => hosts.includes(`${name}:${inside.port}`)));
  t.same(looks.sort(), ['A', 'AAAA'], 'one look');
});

t.test('addresses of this machine are refused, also public ones and those that it gets while it runs', async (t) => {
  const inside = await serve(t, (_request, response) => response.end('inside'));
  const own: string[] = [];
  const plugin = await pluginWith(t, ['own.test'], { listOwnAddresses: () => own });
  plugin.dns.set('own.test', [PUBLIC]);
  const fetchOwn = (timeoutMs = 30_000) => plugin.fetch(`http://own.test:${inside.port}/`, { timeoutMs });
  // Nothing listens there.
  await t.rejects(fetchOwn(300), { message: /^(?!.*machine)/ }, 'somebody else’s so far');
  own.push('fe80::1%eth0', PUBLIC);
  await t.rejects(fetchOwn(), {
    message: 'own.test has an address of the machine that runs Bulkhead; requests to it are not allowed',
  });
  const [mine] = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  plugin.dns.set('own.test', [mine?.address ?? '']);
  plugin.allow(`own.test:${inside.port}`);
  if (mine?.address === '127.0.0.1') t.equal((await fetchOwn()).bodyText, 'inside', 'unless the operator allows it');
});

t.test('ports of other protocols are refused, unless the operator names them', async (t) => {
  const plugin = await pluginWith(t, ['mail.test']);
  plugin.dns.set('mail.test', [PUBLIC]);
  for (const port of [1, 22, 25, 465, 587, 993, 2049, 5060, 6000, 6667, 10_080])
    await t.rejects(plugin.fetch(`http://mail.test:${port}/`), {
      message: `port ${port} belongs to another protocol than HTTP; requests to it are not allowed`,
    });
  const moved = await serve(t, (_request, response) =>
    response.writeHead(302, { location: 'http://mail.test:25/' }).end(),
  );
  plugin.allow(`mail.test:${moved.port}`);
  plugin.dns.set('mail.test', ['127.0.0.1']);
  await t.rejects(plugin.fetch(`http://mail.test:${moved.port}/`), { message: /^port 25 / }, 'by a redirect');
  plugin.allow('mail.test:1');
  await t.rejects(plugin.fetch('http://mail.test:1/'), { message: 'mail.test cannot be reached (ECONNREFUSED)' });
});

t.test('the connection uses the first DNS answer', async (t) => {
  const first = await serve(t, (_request, response) => response.end('first'));
  const second = await serve(t, (_request, response) => response.end('second'), '127.0.0.2', first.port);
  const plugin = await reaching(t, first);
  plugin.dns.set('api.test', ['127.0.0.1'], ['127.0.0.2']);
  t.equal((await plugin.fetch(`http://api.test:${first.port}/`)).bodyText, 'first');
  t.equal(second.connections(), 0);
  t.equal((await plugin.fetch(`http://api.test:${first.port}/`)).bodyText, 'second', 'each call looks anew');
});

/** http-addresses.test.ts judges addresses without a request. */
const alwaysRefused = [['127.0.0.1'], [PUBLIC, '::1']];
const notPublic = [
  ...alwaysRefused,
  [PUBLIC, '127.0.0.1'],
  ['::ffff:7f00:1'],
  ['64:ff9b::7f00:1'],
  ['2002:7f00:1::'],
  ['169.254.169.254'],
  ['10.0.0.1'],
  ['fd00::1'],
  ['0.0.0.0'],
];
for (const answers of amount({ quick: alwaysRefused, soak: notPublic }))
  t.test(`a name that answers ${answers.join(' and ')} is refused`, async (t) => {
    const inside = await serve(t, (_request, response) => response.end('inside'));
    const plugin = await pluginWith(t, ['evil.test']);
    plugin.dns.set('evil.test', answers);
    await t.rejects(plugin.fetch(`http://evil.test:${inside.port}/`), { message: /an address that is not public/ });
    t.equal(inside.connections(), 0);
  });

t.test('a name with very many addresses is refused before they are checked', async (t) => {
  const plugin = await pluginWith(t, ['many.test']);
  const addresses = Array.from({ length: 64 }, (_, n) => (n % 2 === 0 ? `10.0.0.${n}` : `fd00::${n}`));
  plugin.dns.set('many.test', addresses, [...addresses, '10.0.1.1']);
  await t.rejects(plugin.fetch('http://many.test/'), { message: /an address that is not public/ });
  await t.rejects(plugin.fetch('http://many.test/'), {
    name: 'HostError',
    message: 'many.test has more than 64 addresses; requests to it are not possible',
  });
});

t.test('a name server that does not answer is no name without an address', async (t) => {
  const plugin = await pluginWith(t, ['gone.test', 'away.test']);
  await t.rejects(plugin.fetch('http://gone.test/'), { message: 'gone.test has no address' });
  plugin.dns.refuse('away.test');
  await t.rejects(plugin.fetch('http://away.test/'), {
    name: 'HostError',
    message: 'the address of away.test could not be looked up (EREFUSED); try again later',
  });
});

t.test('a private target counts by name and port together', async (t) => {
  const [named, other] = [await serve(t, (_, response) => response.end()), await serve(t, (_, r) => r.end())];
  const plugin = await reaching(t, named, ['*.test']);
  plugin.dns.set('evil.test', ['127.0.0.1']);
  await t.rejects(plugin.fetch(`http://api.test:${other.port}/`), { message: /not public/ });
  await t.rejects(plugin.fetch(`http://evil.test:${named.port}/`), { message: /not public/ });
  await t.rejects(plugin.fetch(`http://gone.test:${named.port}/`), { message: 'gone.test has no address' });
  t.equal(other.connections() + named.connections(), 0);
});

t.test('a redirect is judged like a first address', async (t) => {
  const inside = await serve(t, (_request, response) => response.end('inside'));
  const server = await serve(t, (request, response) => {
    const to = decodeURIComponent(request.url?.slice(1) ?? '');
    response.writeHead(307, { location: to }).end();
  });
  const plugin = await reaching(t, server, ['api.test', 'inner.test']);
  plugin.dns.set('inner.test', ['127.0.0.1']);
  const refused = {
    [`http://inner.test:${inside.port}/`]: /inner.test has an address that is not public/,
    [`http://127.0.0.1:${inside.port}/`]: /contains an IP address/,
    [`http://2130706433:${inside.port}/`]: /contains an IP address/,
    [`http://[::ffff:7f00:1]:${inside.port}/`]: /contains an IP address/,
    [`http://localhost:${inside.port}/`]: /localhost is not a granted host/,
    '//ungranted.test/': /ungranted.test is not a granted host/,
    'file:///etc/passwd': /only http: and https:/,
    [`http://user:pw@api.test:${inside.port}/`]: /user name or password/,
    'http://:0': /an invalid address/,
  };
  for (const [to, message] of Object.entries(refused))
    await t.rejects(plugin.fetch(`http://api.test:${server.port}/${encodeURIComponent(to)}`), { message }, to);
  t.equal(inside.connections(), 0);
  await isIdle(server);
});

t.test('a chain of redirects ends', async (t) => {
  let requests = 0;
  const server = await serve(t, (_request, response) => {
    requests += 1;
    response.writeHead(302, { location: `/${requests}` }).end();
  });
  const plugin = await reaching(t, server);
  await t.rejects(plugin.fetch(`http://api.test:${server.port}/`), { message: /redirected more than 5 times/ });
  await t.rejects(plugin.fetch(`http://api.test:${server.port}/`, { redirect: 'error' }), {
    message: /allows no redirect/,
  });
  t.equal(requests, 7, 'six, and the one that is not followed');
  await isIdle(server);
});

const slow: Readonly<Record<string, Parameters<typeof serve>[1]>> = {
  'no answer': () => undefined,
  'a body in drops': (_request, response) => {
    const drip = setInterval(() => response.write('x'), 20);
    response.on('close', () => clearInterval(drip));
  },
  'a body that stops': (_request, response) => void response.write('x'),
};
for (const [name, listener] of listCases(slow, 'a body in drops'))
  t.test(`slow: ${name}`, async (t) => {
    const server = await serve(t, listener);
    const plugin = await reaching(t, server);
    await eventually(async () => {
      const answer = plugin.fetch(`http://api.test:${server.port}/`, { timeoutMs: 300 });
      await t.rejects(answer, { name: 'HostError', message: 'no complete response within 300 ms' });
      // On a busy machine the time may have passed before it connected.
      return server.connections() > 0;
    });
    await isIdle(server);
  });

/** Zeros, in the same bytes as without the strategy, and in a quarter of the processor time. */
const gzipZeros = (bytes: number): Buffer => gzipSync(Buffer.alloc(bytes), { strategy: constants.Z_RLE });
const bomb = gzipZeros(200 * MIB);
const huge: Readonly<Record<string, { listener: Parameters<typeof serve>[1]; message: RegExp }>> = {
  'a gzip bomb': {
    listener: (_request, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb),
    message: /longer than \d+ bytes/,
  },
  'a bomb in a bomb': {
    listener: (_request, response) =>
      void response.writeHead(200, { 'content-encoding': 'gzip, gzip' }).end(gzipSync(bomb)),
    message: /content-encoding that is not understood/,
  },
  'a body without end': {
    listener: (_request, response) => {
      const more = () => {
        while (response.writable && response.write(Buffer.alloc(MIB)));
      };
      response.on('drain', more);
      more();
    },
    message: /longer than \d+ bytes/,
  },
  'half a megabyte of headers': {
    listener: (_request, response) => void response.writeHead(200, { 'x-big': 'x'.repeat(MIB / 2) }).end(),
    message: /headers over 65536 bytes/,
  },
  'many headers': {
    listener: (_request, response) => {
      for (let index = 0; index < 50_000; index++) response.setHeader(`x-${index}`, 'x');
      response.end();
    },
    message: /headers over 65536 bytes/,
  },
};
for (const [name, { listener, message }] of listCases(huge, 'a gzip bomb', 'half a megabyte of headers'))
  t.test(`huge: ${name}`, async (t) => {
    const server = await serve(t, listener);
    const plugin = await reaching(t, server);
    const before = process.memoryUsage().rss;
    await t.rejects(plugin.fetch(`http://api.test:${server.port}/`), { name: 'HostError', message });
    t.ok(process.memoryUsage().rss - before < 100 * MIB, 'it was not unpacked whole');
    await isIdle(server);
  });

t.test('invalid HTTP responses and headers are rejected', async (t) => {
  const answers: string[] = [];
  const server = await listenOn(
    t,
    createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.end(answers.shift() ?? ''));
    }),
  );
  const plugin = await reaching(t, server);
  const fetch = () => plugin.fetch(`http://api.test:${server.port}/`);
  answers.push('SSH-2.0-OpenSSH_9.9\r\n', '', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf');
  for (let left = answers.length; left > 0; left--)
    await t.rejects(fetch(), { name: 'HostError', message: /^api\.test sent an invalid response/ });
  answers.push('HTTP/1.1 200 OK\r\n__proto__: x\r\nconstructor: y\r\ncontent-length: 2\r\n\r\nok');
  const { headers, bodyText } = await fetch();
  t.equal(bodyText, 'ok');
  t.same(Object.keys(headers).sort(), ['constructor', 'content-length']);
  t.equal(Object.getPrototypeOf(headers), Object.prototype);
  await isIdle(server);
});

t.test('a server that sends interim responses without end is refused after a few', async (t) => {
  const interim = 'HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n';
  let count = 16;
  const server = await listenOn(
    t,
    createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.write(`${interim.repeat(count)}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`));
    }),
  );
  const plugin = await reaching(t, server);
  const fetch = () => plugin.fetch(`http://api.test:${server.port}/`);
  t.match(await fetch(), { status: 200, bodyText: 'ok' });
  count += 1;
  await t.rejects(fetch(), {
    name: 'HostError',
    message: 'api.test sent more than 16 interim responses (status 1xx)',
  });
  await isIdle(server);
});

t.test('TLS: a server that supports DHE only is refused', { skip: whyMissing('openssl') }, async (t) => {
  const { key, cert } = await makeCertificate(t, 'rsa');
  const fetchFrom = async (ciphers: string) => {
    const options = { key, cert, ciphers, dhparam: 'auto', maxVersion: 'TLSv1.2' } as const;
    const server = await listenOn(
      t,
      createSecureServer(options, (_request, response) => response.end('secure')),
    );
    const plugin = await reaching(t, server, ['api.test'], { certificates: cert });
    return plugin.fetch(`https://api.test:${server.port}/`);
  };
  for (const ciphers of ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-CHACHA20-POLY1305', 'ECDHE-RSA-AES256-SHA'])
    t.equal((await fetchFrom(ciphers)).bodyText, 'secure', ciphers);
  for (const ciphers of ['DHE-RSA-AES128-GCM-SHA256', 'DHE-RSA-AES256-SHA256'])
    await t.rejects(fetchFrom(ciphers), {
      name: 'HostError',
      message: 'api.test refused the TLS handshake; it must support TLS 1.3, or TLS 1.2 with an ECDHE cipher suite',
    });
});

t.test('TLS: a server cannot ask for a second handshake', { skip: whyMissing('openssl') }, async (t) => {
  const { key, cert } = await makeCertificate(t, 'ec');
  const { promise: asked, resolve } = Promise.withResolvers<unknown>();
  const secure = createSecureServer({ key, cert, maxVersion: 'TLSv1.2' }, (request) => {
    const socket = request.socket as TLSSocket;
    socket.on('error', resolve);
    socket.renegotiate({}, (error) => resolve(error ?? 'a second handshake'));
  });
  const server = await listenOn(t, secure);
  const plugin = await reaching(t, server, ['api.test'], { certificates: cert });
  await t.rejects(plugin.fetch(`https://api.test:${server.port}/`), { name: 'HostError' });
  t.match(await asked, { code: 'ERR_SSL_NO_RENEGOTIATION' });
});

t.test('TLS: a server that does not read the body', { skip: whyMissing('openssl') }, async (t) => {
  const { key, cert } = await makeCertificate(t, 'ec');
  const secure = createSecureServer({ key, cert }, (request, response) => {
    if (request.url === '/reset') request.once('data', () => connection?.resetAndDestroy());
    else response.writeHead(413, { connection: 'close' }).end('too large');
  });
  let connection: Socket | undefined;
  secure.on('connection', (opened: Socket) => {
    connection = opened;
  });
  const server = await listenOn(t, secure);
  const plugin = await reaching(t, server, ['api.test'], { certificates: cert });
  const post = (path: string) =>
    plugin.fetch(`https://api.test:${server.port}${path}`, { method: 'POST', body: 'x'.repeat(2 * MIB) });
  await t.rejects(post('/reset'), { name: 'HostError' }, 'a reset in the middle ends the request only');
  t.match(await post('/early'), { status: 413, bodyText: 'too large' }, 'an answer before the end of the body arrives');
});

/** Requests may take this much processor time, which one request uses up, until the clock has moved. */
function slowRequests() {
  const clock = { now: 0 };
  return { clock, rates: new RequestRates({ burst: 1, perSecond: 1 }, () => clock.now) };
}

t.test(
  'an account that has used up its processor time waits, and is refused when its request has no time left',
  async (t) => {
    const server = await serve(t, (_request, response) => response.end('ok'));
    const { clock, rates } = slowRequests();
    const plugin = await reaching(t, server, ['api.test'], { rates });
    const fetch = (timeoutMs: number) => plugin.fetch(`http://api.test:${server.port}/`, { timeoutMs });
    t.equal((await fetch(60_000)).bodyText, 'ok');
    const message =
      'the requests of this account have used up their processor time (100 ms a second for new connections); send fewer requests, or try again later';
    await t.rejects(fetch(1), { name: 'HostError', message });
    await t.rejects(plugin.open('1', `http://api.test:${server.port}/`, { timeoutMs: 1 }), { message });
    t.equal(server.connections(), 1);
    const waiting = fetch(60_000);
    await rates.open('ben').begin(new URL('https://api.test/'), AbortSignal.timeout(60_000));
    t.pass('other accounts do not wait');
    clock.now += 1_000;
    t.equal((await waiting).bodyText, 'ok');
  },
);

/** A rate that one bomb uses up, and a clock that refills it. */
function slowRate() {
  let now = 0;
  const turns = new ResultTurns({ burst: 128 * 1024, perSecond: 1024 * 1024 }, () => now);
  const turn = turns.open({ accountId: 'ann', installationId: 'one' }, new AbortController().signal);
  const isInDebt = async () => {
    const paused = turn.chargePart(new Uint8Array(), AbortSignal.abort());
    await paused?.catch(() => undefined);
    return paused !== undefined;
  };
  const refill = () => {
    now += 1_000_000;
  };
  return { turns, isInDebt, refill };
}

const serveBomb = (t: Test) =>
  serve(t, (_request, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb));

t.test('a body that is refused in the end counts against the rate of its installation', async (t) => {
  const server = await serveBomb(t);
  const { turns, isInDebt, refill } = slowRate();
  const plugin = await reaching(t, server, ['api.test'], { resultTurns: turns });
  let isRefused = false;
  const fetching = t
    .rejects(plugin.fetch(`http://api.test:${server.port}/`), { message: /longer than \d+ bytes/ })
    .then(() => {
      isRefused = true;
    });
  let waits = 0;
  while (!isRefused) {
    await eventually(async () => isRefused || (await isInDebt()));
    if (!isRefused) waits += 1;
    refill();
  }
  await fetching;
  t.ok(waits > 0, 'the rest of the body waits while the installation is in debt');
  await isIdle(server);
});

t.test('a body that is read while it arrives counts against the rate, too', async (t) => {
  const server = await serveBomb(t);
  const { turns, isInDebt } = slowRate();
  const plugin = await reaching(t, server, ['api.test'], { resultTurns: turns });
  await plugin.open('1', `http://api.test:${server.port}/`);
  const reading = plugin.readAll('1').catch((error) => error);
  await eventually(isInDebt);
  plugin.closeBody('1');
  t.match(await reading, { name: 'HostCallRefusal', message: 'fetch: the plugin cancelled it' });
  await isIdle(server);
});

t.test('headers that steer the connection or break out of it are refused', async (t) => {
  const server = await serve(t, (_request, response) => response.end());
  const plugin = await reaching(t, server);
  const send = (headers: Record<string, string>) => plugin.fetch(`http://api.test:${server.port}/`, { headers });
  for (const name of ['Host', 'connection', 'Transfer-Encoding', 'content-length', 'Upgrade', 'TE', 'expect'])
    await t.rejects(send({ [name]: 'x' }), { message: `the header ${name} is set by the host and cannot be sent` });
  const broken = [{ 'x-a': 'b\r\nhost: evil' }, { 'x-a\r\nhost': 'x' }, { 'x a': 'x' }, { 'x-a': '☃' }, { '': 'x' }];
  for (const headers of broken) await t.rejects(send(headers), { message: /is not a header that can be sent/ });
  await t.rejects(send({ 'x-a': 'x'.repeat(40_000) }), { message: /too many or too long/ });
  await t.rejects(send({ 'x-a': '☃'.repeat(40_000) }), { message: /too many or too long/ }, 'before they are read');
  t.equal(server.connections(), 0);
});

/** Attempts of a plugin's code with `fetch`. `$granted` is an address that answers, `$other` one that is not granted. */
const TRICKS = [
  // Values that are another at the second look.
  `let n = 0; return fetch({ toString: () => (n++ ? '$other' : '$granted') });`,
  `let n = 0; return host.http.fetch({ toJSON: () => (n++ ? '$other' : '$granted') });`,
  `let n = 0; return host.http.fetch('$granted', { get method() { return n++ ? 'CONNECT' : 'GET'; } });`,
  `let n = 0; return fetch('$granted', { get headers() { return n++ ? { host: 'other.test' } : { a: 'b' }; } });`,
  `class Sly extends Request { get url() { return '$other'; } get headers() { return new Headers({ 'x-injected': 'y' }); } }
   return fetch(new Sly('$granted'));`,
  `return fetch(Object.defineProperty(new Request('$granted'), 'url', { value: '$other' }));`,
  `return fetch(new Proxy(new URL('$granted'), { get: (url, key) => (key === 'href' ? '$other' : Reflect.get(url, key)) }));`,
  `const url = new URL('$granted'); const sent = fetch(url); url.host = 'other.test'; return sent;`,
  `const headers = new Headers({ a: 'b' }); const sent = fetch('$granted', { headers }); headers.set('x-injected', 'y'); return sent;`,
  `const body = new Uint8Array(4); const sent = fetch('$granted', { method: 'POST', body }); body.fill(7); return sent;`,
  `globalThis.URL = class { get href() { return '$other'; } toString() { return '$other'; } }; return fetch('$granted');`,
  `globalThis.Request = class { url = '$other'; }; return fetch('$granted');`,
  // Addresses that look granted.
  ...[
    ...[
      'http://api.test@other.test:$port/',
      'http://other.test:$port#@api.test',
      'http:\\\\other.test:$port\\@api.test',
    ],
    ...[
      'http://api.test.other.test:$port/',
      'http://user:key@api.test:$port/',
      '//other.test:$port/',
      'http://api.test%00.other.test/',
    ],
    ...[
      'http://other.test:$port/?api.test',
      'http://127.0.0.1:$port/',
      'http://0x7f.1:$port/',
      'http://[::ffff:127.0.0.1]:$port/',
    ],
  ].map((url) => `return fetch('${url}');`),
  `return fetch('$granted/../redirect');`,
  `return fetch('$granted/redirect', { method: 'POST', body: 'x', headers: { authorization: 'Bearer key' } });`,
  // Headers and methods that would say more than one thing.
  ...[
    ...[
      `{ 'x-a': 'b\\r\\nx-injected: y' }`,
      `{ 'x-a\\r\\nx-injected': 'y' }`,
      `{ 'ho\u017ft': 'other.test' }`,
      `{ host: 'other.test' }`,
    ],
    ...[`{ 'Transfer-Encoding': 'chunked' }`, `{ 'content-length': '0' }`, `{ connection: 'x-a', 'x-a': 'b' }`],
    ...[`[['host', 'other.test'], ['host', 'api.test']]`, `new Map([['x-a', 'b\\nx-injected: y']])`],
    ...[`JSON.parse('{"__proto__":"x","constructor":"y","tostring":"z"}')`],
  ].flatMap((headers) => [
    `return fetch('$granted', { headers: ${headers} });`,
    `return host.http.fetch('$granted', { headers: ${headers} });`,
  ]),
  ...['GET / HTTP/1.1\\r\\nx-injected: y', 'CONNECT', 'TRACE', 'get ', 'ＧＥＴ'].map(
    (method) => `return fetch('$granted', { method: '${method}' });`,
  ),
];

t.test('whatever a plugin does with fetch reaches the granted host only, as one request', async (t) => {
  const seen: string[] = [];
  const server = await serve(t, (request, response) => {
    seen.push(`${request.method} ${request.url} ${request.rawHeaders.join()}`);
    if (request.url?.includes('redirect')) response.writeHead(307, { location: `http://other.test:${other.port}/` });
    response.end('ok');
  });
  const other = await serve(t, (_request, response) => response.end('other'));
  const plugin = await reaching(t, server);
  plugin.dns.set('other.test', ['127.0.0.1']);
  for (const name of ['other.test', '127.0.0.1']) plugin.allow(`${name}:${other.port}`);
  const params = z.object(hostCalls['http.fetch'].params);
  let calls = 0;
  const child = testChild(t, await testJail(t), {
    onHostCall: async ({ args: [url, init] }) => {
      calls += 1;
      // As the router of host calls does.
      const given = params.safeParse({ url, init });
      if (!given.success) throw new HostCallRefusal('invalid', given.error.message);
      return plugin.fetch(given.data.url, given.data.init).catch((error: Error) => {
        throw new HostCallRefusal('failed', error.message);
      });
    },
  });
  const before = 'const kept = [URL, Request];';
  const after = '[globalThis.URL, globalThis.Request] = kept;';
  const code = `${before} try { const r = await (0, eval)('(async () => {' + args.code + '})')(); return r.status; } finally { ${after} }`;
  await child.load(bundleOf(toolOf(code), { members: ['http.fetch'] }));
  const answers: string[] = [];
  for (const trick of TRICKS) {
    const given = trick
      .replaceAll('$granted', `http://api.test:${server.port}`)
      .replaceAll('$other', `http://other.test:${other.port}/`)
      .replaceAll('$port', String(other.port));
    const outcome = await callTool(child, 'run', { code: given });
    answers.push(outcome.outcome === 'answered' ? String(outcome.answer) : outcome.outcome);
    t.match(outcome, { outcome: /answered|failed/ }, trick);
  }
  t.equal(other.connections(), 0, 'the other host is not reached');
  for (const request of seen)
    t.match(request, /^(?!.*(?:x-injected|other\.test|transfer-encoding,chunked))(?:GET|POST) \/\S* /i);
  t.equal(child.state, 'loaded');
  t.ok(calls > 20 && answers.includes('200') && answers.includes('failed'), `${calls} calls, ${seen.length} requests`);
});

t.test('a body that is too long, or that a method does not have, is refused', async (t) => {
  const server = await serve(t, (_request, response) => response.end());
  const plugin = await reaching(t, server);
  const url = `http://api.test:${server.port}/`;
  await t.rejects(plugin.fetch(url, { body: 'x' }), { message: 'a GET request has no body' });
  const body = 'x'.repeat(2 * MIB + 1);
  await t.rejects(plugin.fetch(url, { method: 'POST', body }), { message: /the body is longer than 2097152 bytes/ });
  t.equal(server.connections(), 0);
});

t.test('an installation has so many requests under way, and no more', async (t) => {
  const server = await serve(t, () => undefined);
  const plugin = await reaching(t, server);
  const fetch = () => plugin.fetch(`http://api.test:${server.port}/`);
  const waiting = Array.from({ length: 16 }, fetch);
  const ended = Promise.allSettled(waiting);
  await t.rejects(fetch(), { message: '16 requests are running; wait until one has ended' });
  await eventually(async () => (await server.open()) === 16);
  plugin.child.abort();
  t.ok((await ended).every(({ status }) => status === 'rejected'));
  await isIdle(server);
});

t.test('answers that arrive slowly hold so many bytes of an account, and no more', async (t) => {
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
  const server = await serve(t, async (request, response) => {
    response.write('x'.repeat(600));
    if (request.url === '/slow') await isOver;
    response.end();
  });
  const memory = new BodyMemory(1_000);
  const plugin = await reaching(t, server, ['api.test'], { memory });
  const fetch = (path: string) => plugin.fetch(`http://api.test:${server.port}${path}`);
  for (let times = 0; times < 3; times += 1) t.equal((await fetch('/')).bodyText.length, 600, 'one after the other');
  const slow = fetch('/slow');
  const hasRoom = () =>
    memory
      .during('ann', async (take) => take(600))
      .then(
        () => true,
        () => false,
      );
  await eventually(async () => !(await hasRoom()));
  const message = 'too many requests with large bodies or responses are running; try again when some have ended';
  await t.rejects(fetch('/'), { name: 'HostError', message });
  end();
  t.equal((await slow).bodyText.length, 600);
  t.equal((await fetch('/')).bodyText.length, 600, 'when the slow one has ended');
  await isIdle(server);
});

t.test('the body of a request holds memory of its account until the request has ended', async (t) => {
  const server = await serve(t, (request, response) => {
    response.flushHeaders();
    if (request.url === '/') response.end();
  });
  const plugin = await reaching(t, server, ['api.test'], { memory: new BodyMemory(1_000) });
  const address = (path: string) => `http://api.test:${server.port}${path}`;
  const upload = { method: 'POST', body: 'x'.repeat(600) } as const;
  const send = async () => (await plugin.fetch(address('/'), upload)).status;
  const isFull = { name: 'HostError', message: /^too many requests with large bodies or responses are running; try/ };
  t.match(await plugin.open('1', address('/open'), upload), { isOpen: true }, 'its answer is read while it arrives');
  await t.rejects(send(), isFull);
  await t.rejects(plugin.open('2', address('/open'), upload), isFull);
  t.equal((await plugin.fetch(address('/'))).status, 200, 'a request without a body is sent');
  plugin.closeBody('1');
  t.equal(await send(), 200, 'after that was cancelled');
  const sending = plugin.fetch(address('/silent'), upload);
  await t.rejects(send(), isFull, 'its answer is read whole');
  plugin.child.abort();
  await t.rejects(sending);
  await isIdle(server);
});

t.test('revoking a grant closes its connection, not one to another host', async (t) => {
  const server = await serve(t, () => undefined);
  const plugin = await reaching(t, server, ['api.test', 'other.test']);
  const answer = t.rejects(plugin.fetch(`http://api.test:${server.port}/`));
  await eventually(async () => (await server.open()) === 1);
  const current = plugin.installation.plugin;
  plugin.installation.update({ ...current, granted: ['host.http:*.test'] });
  plugin.installation.update({ ...current, granted: ['host.http:api.test'] });
  t.equal(await server.open(), 1);
  plugin.installation.update({ ...current, granted: ['host.http:other.test'] });
  await answer;
  await isIdle(server);
  await t.rejects(plugin.fetch(`http://api.test:${server.port}/`), { message: /not a granted host/ });
});

/** Bounds that a test can reach. */
const SMALL = { openMax: 2, bytesMax: MIB, totalMs: 60_000, idleMs: 60_000 };

/** A plugin that may reach a server of ours, and its bodies within these bounds. */
async function streaming(
  t: Test,
  server: ListeningServer,
  bounds: Partial<typeof SMALL> = {},
  isFromProvider = false,
): Promise<Plugin> {
  const plugin = await pluginWith(t, ['api.test'], { bounds: { ...SMALL, ...bounds }, isFromProvider });
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  return plugin;
}
const refusal = (message: RegExp) => ({ name: 'HostCallRefusal', code: 'failed', message });

t.test('a body is read while it arrives, and one that is there at once is whole', async (t) => {
  let next: (piece: string) => void = () => undefined;
  const server = await serve(t, (request, response) => {
    if (request.url === '/whole') return void response.end('whole');
    response.flushHeaders();
    next = (piece) => (piece === '' ? response.end() : response.write(piece));
  });
  const plugin = await streaming(t, server);
  const whole = await plugin.open('1', `http://api.test:${server.port}/whole`);
  t.match(whole, { status: 200, isOpen: false });
  t.equal(Buffer.from(whole.bodyBytes).toString(), 'whole');
  t.match(await plugin.open('1', `http://api.test:${server.port}/`), { status: 200, isOpen: true, bodyText: '' });
  for (const piece of ['one', 'two', 'three']) {
    next(piece);
    const { bytes, isEnd } = await plugin.read('1');
    t.same([Buffer.from(bytes).toString(), isEnd], [piece, false]);
  }
  next('');
  t.match(await plugin.read('1'), { isEnd: true });
  t.ok(await isIdle(server));
  await t.rejects(plugin.read('1'), refusal(/^fetch: the body is not open any more/));
});

t.test('an endless body waits for its reader, and ends at the limit', async (t) => {
  let written = 0;
  const chunk = Buffer.alloc(65_536, 'x');
  const server = await serve(t, (_request, response) => {
    const write = (): void => {
      while (!response.destroyed && response.write(chunk)) written += chunk.byteLength;
    };
    response.on('drain', write);
    write();
  });
  const plugin = await streaming(t, server);
  t.match(await plugin.open('1', `http://api.test:${server.port}/`), { isOpen: true });
  await t.rejects(plugin.readAll('1'), refusal(/response is longer than 1048576 bytes/));
  t.ok(await isIdle(server));
  // The buffers of the sockets hold more than the limit.
  t.ok(written < 32 * MIB, `${written} bytes`);
});

for (const coding of amount({ quick: ['gzip'], soak: ['identity', 'gzip'] }))
  t.test(`of a body in parts of one byte, few wait for the reader: ${coding}`, async (t) => {
    const body = coding === 'gzip' ? gzipSync(randomBytes(100_000)) : randomBytes(100_000);
    const parts = [...body].map((byte) => `1\r\n${String.fromCharCode(byte)}\r\n`).join('');
    const head = `HTTP/1.1 200 OK\r\ncontent-encoding: ${coding}\r\ntransfer-encoding: chunked\r\n\r\n`;
    const server = await listenOn(
      t,
      createServer((socket) => {
        socket.on('error', () => undefined);
        socket.once('data', () => socket.write(head + parts, 'latin1'));
      }),
    );
    const dns = await startDns(t);
    dns.set('api.test', ['127.0.0.1']);
    const exchange = { allowPrivate: new Set([`api.test:${server.port}`]), dnsServers: [dns.address] };
    const request = {
      url: new URL(`http://api.test:${server.port}/`),
      method: 'GET',
      headers: {},
      body: null,
    } as const;
    const opened = (await send(
      request,
      exchange,
      new RequestRates().open('ann'),
      new AbortController().signal,
    )) as Opened;
    const stream = opened.body as Readable | Transform;
    const isFull = () => stream.readableLength >= stream.readableHighWaterMark;
    await eventually(async () => isFull() && ('writable' in stream ? stream.writableNeedDrain : true));
    t.ok(stream.readableLength <= 8 * 1024, `${stream.readableLength} bytes wait`);
    if ('writable' in stream) t.ok(stream.writableLength <= 8 * 1024, `${stream.writableLength} bytes to decode wait`);
    await opened.close();
    await isIdle(server);
  });

t.test('a body that dribbles, and one that stops, end at their times', async (t) => {
  const server = await serve(t, (request, response) => {
    response.write('x');
    if (request.url === '/stops') return;
    const timer = setInterval(() => response.write('x'), 10);
    response.on('close', () => clearInterval(timer));
  });
  const dribbling = await streaming(t, server, { totalMs: 200 });
  const dribbled = await eventually(async () => {
    await dribbling.open('1', `http://api.test:${server.port}/`);
    const error: Error = await dribbling.readAll('1').catch((reason) => reason);
    // On a busy machine the time may have passed before it was read.
    return !/^fetch: the body is not open any more/.test(error.message) && error;
  });
  t.match(dribbled, refusal(/the body took longer than 200 ms/));
  t.ok(await isIdle(server));
  const stopping = await streaming(t, server, { idleMs: 50 });
  await stopping.open('1', `http://api.test:${server.port}/stops`, { timeoutMs: 60_000 });
  await t.rejects(stopping.readAll('1'), refusal(/nothing of the body arrived within 50 ms/));
  t.ok(await isIdle(server));
});

t.test('a provider waits for a slow model, other handlers for the shorter time', async (t) => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const server = await serve(t, (request, response) => {
    if (request.url === '/pauses') response.write('late');
    void released.then(() => response.end(request.url === '/pauses' ? 'r' : 'late'));
  });
  const url = `http://api.test:${server.port}/`;
  const provider = await streaming(t, server, { idleMs: 50 }, true);
  const other = await streaming(t, server, { idleMs: 50 });
  const whole = provider.fetch(url);
  const opened = provider.open('1', url);
  await provider.open('2', `${url}pauses`);
  const paused = provider.readAll('2');
  await t.rejects(other.fetch(url), { message: 'no complete response within 50 ms' });
  await t.rejects(other.open('1', url), { message: 'no complete response within 50 ms' });
  await other.open('2', `${url}pauses`, { timeoutMs: 60_000 });
  await t.rejects(other.readAll('2'), refusal(/nothing of the body arrived within 50 ms/));
  release();
  t.equal((await whole).bodyText, 'late');
  t.equal((await opened).status, 200);
  t.match(await paused, /^(late)?r$/, 'what arrived with the headers is not read again');
});

t.test('a compressed bomb ends at the limit; a body cut in its middle is an error', async (t) => {
  const server = await serve(t, (request, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' });
    if (request.url === '/bomb') return void response.end(gzipZeros(64 * MIB));
    response.write(gzipSync('x'.repeat(100_000)).subarray(0, 60));
    response.socket?.end();
  });
  const plugin = await streaming(t, server);
  const ask = async (path: string) => {
    await plugin.open(path, `http://api.test:${server.port}${path}`);
    return plugin.readAll(path);
  };
  await t.rejects(ask('/bomb'), { message: /response is longer than 1048576 bytes/ });
  await t.rejects(ask('/cut'), { message: /api\.test sent an invalid response/ });
  t.ok(await isIdle(server));
});

t.test('a secret that a server repeats in parts stays masked', async (t) => {
  const secret = 'sk-0123456789-grüße';
  let cut = 0;
  const server = await serve(t, (request, response) => {
    const asUtf8 = Buffer.from(`<${Buffer.from(String(request.headers.authorization), 'latin1').toString('latin1')}>`);
    response.write(asUtf8.subarray(0, cut));
    setImmediate(() => response.end(asUtf8.subarray(cut)));
  });
  const plugin = await pluginWith(t, ['api.test'], { secrets: { key: secret }, uses: { key: ['http:api.test'] } });
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  const headers = { authorization: plugin.handleOf('key') };
  for (cut = 1; cut < 20; cut += 1) {
    const { bodyBytes, isOpen } = await plugin.open('1', `http://api.test:${server.port}/`, { headers });
    const body = Buffer.from(bodyBytes).toString() + (isOpen ? await plugin.readAll('1') : '');
    t.equal(body, '<[secret key]>', `cut at ${cut}`);
  }
});

t.test('closing a body, the end of the child and of its grant free the connection at once', async (t) => {
  const server = await serve(t, (request, response) => {
    if (request.url === '/open') response.write('x');
  });
  const url = `http://api.test:${server.port}`;
  const plugin = await streaming(t, server);
  await plugin.open('1', `${url}/open`);
  const reading = t.rejects(plugin.readAll('1'), refusal(/the plugin cancelled it/));
  plugin.closeBody('1');
  await reading;
  t.ok(await isIdle(server));
  const waiting = t.rejects(plugin.open('1', `${url}/silent`), { name: 'HostError' });
  await eventually(async () => server.connections() === 2);
  plugin.closeBody('1');
  await waiting;
  t.ok(await isIdle(server), 'also before the headers');

  await plugin.open('1', `${url}/open`);
  await plugin.open('2', `${url}/open`);
  await t.rejects(plugin.open('3', `${url}/open`), {
    message: '2 responses are open; read their bodies to the end, or cancel them',
  });
  const revoked = t.rejects(plugin.readAll('1'), refusal(/api\.test is not granted any more/));
  plugin.installation.update({ ...plugin.installation.plugin, granted: ['host.http:other.test'] });
  await revoked;
  t.ok(await isIdle(server));

  const dying = await streaming(t, server);
  await dying.open('1', `${url}/open`);
  const died = t.rejects(dying.readAll('1'), refusal(/the plugin has ended/));
  dying.child.abort();
  await died;
  t.ok(await isIdle(server));
});
