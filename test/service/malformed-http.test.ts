/** Whatever is no request of HTTP, or one that no route can get, is answered as a problem: never bare, and never with silence. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import t from 'tap';
import { createApplication } from '../../service/http/application.ts';

const app = createApplication({
  logger: pino({ level: 'silent' }),
  bodyMaxBytes: 1_000,
  server: {},
  onResponse: () => undefined,
});
app.get('/known', async () => ({ ok: true }));
app.post('/known', async ({ body }) => ({ body }));
const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }));
t.teardown(() => app.close());

/** Sends bytes over a connection of their own. Resolves with what comes back until it is closed. */
async function exchange(bytes: string): Promise<string> {
  const socket = connect(Number(url.port), url.hostname).setEncoding('latin1');
  await once(socket, 'connect');
  socket.end(Buffer.from(bytes, 'latin1'));
  return text(socket);
}

const HOST = 'Host: x\r\n';
const line = (request: string, ...headers: string[]): string =>
  `${request} HTTP/1.1\r\n${HOST}${headers.map((header) => `${header}\r\n`).join('')}\r\n`;
const post = (...headers: string[]): string => line('POST /known', 'Content-Type: application/json', ...headers);

const malformed: Readonly<Record<string, readonly [bytes: string, status: number]>> = {
  'two Host headers': [`GET /known HTTP/1.1\r\n${HOST}${HOST}\r\n`, 400],
  'two Host headers of different case': [`GET /known HTTP/1.1\r\n${HOST}hOST: y\r\n\r\n`, 400],
  'no Host header': ['GET /known HTTP/1.1\r\n\r\n', 400],
  'an unknown method': [line('FOO /known'), 400],
  'a method in lower case': [line('get /known'), 400],
  'a method without a route': [line('PATCH /known'), 405],
  CONNECT: [`CONNECT x:443 HTTP/1.1\r\n${HOST}\r\n`, 405],
  'an unknown version': [`GET /known HTTP/9.9\r\n${HOST}\r\n`, 400],
  'the preface of HTTP/2': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  'a handshake of TLS': ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
  'a path with a blank': [line('GET /a b'), 400],
  'a path beyond ASCII': [line('GET /\xff'), 400],
  'a path with an invalid escape': [line('GET /%zz'), 400],
  'a path in invalid UTF-8': [line('GET /%ff'), 400],
  'a path that is too long': [line(`GET /${'x'.repeat(100_000)}`), 413],
  'a header that is too long': [line('GET /known', `X: ${'x'.repeat(100_000)}`), 413],
  'a header’s name with a blank': [line('GET /known', 'bad name: x'), 400],
  'a blank before the colon': [line('GET /known', 'X : y'), 400],
  'a folded header': [line('GET /known', 'X: a', ' b'), 400],
  'U+0000 in a header': [line('GET /known', 'X: a\0b'), 400],
  'a bare carriage return': [line('GET /known', 'X: a\rb'), 400],
  'line feeds alone': ['GET /known HTTP/1.1\nHost: x\n\n', 400],
  'an unknown expectation': [post('Expect: everything', 'Content-Length: 0'), 400],
  'two lengths': [`${post('Content-Length: 2', 'Content-Length: 3')}{}`, 400],
  'a negative length': [`${post('Content-Length: -1')}{}`, 400],
  'a length beyond all numbers': [`${post('Content-Length: 99999999999999999999999')}{}`, 400],
  'a length and chunks': [`${post('Content-Length: 2', 'Transfer-Encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`, 400],
  'an unknown transfer encoding': [`${post('Transfer-Encoding: gzip')}{}`, 400],
  'a chunk without a length': [`${post('Transfer-Encoding: chunked')}zz\r\n{}\r\n0\r\n\r\n`, 400],
  'a body that ends early': [`${post('Content-Length: 9')}{}`, 400],
  'a body without a type': [`${line('POST /known', 'Content-Length: 2')}{}`, 415],
  'a malformed type': [`${line('POST /known', 'Content-Type: ;;', 'Content-Length: 2')}{}`, 415],
  'an unknown address': [line('GET /unknown', 'Connection: close'), 404],
};

for (const [name, [bytes, status]] of Object.entries(malformed)) {
  t.test(name, async (t) => {
    const answer = await exchange(bytes);
    const [head = '', body = ''] = answer.split('\r\n\r\n', 2);
    t.match(head, new RegExp(`^HTTP/1\\.1 ${status} `));
    t.match(head, /content-type: application\/problem\+json/i);
    t.match(head, /x-request-id: /i);
    t.match(JSON.parse(body), { status, code: String, detail: String, requestId: String });
  });
}

t.test('what only looks odd is served', async (t) => {
  const served: Readonly<Record<string, string>> = {
    'HTTP/1.0 without a Host': 'GET /known HTTP/1.0\r\n\r\n',
    'line breaks before the request': `\r\n\r\n${line('GET /known')}`,
    'an upgrade that nobody serves': line('GET /known', 'Connection: Upgrade', 'Upgrade: websocket'),
    'names of a prototype': line('GET /known', '__proto__: x', 'constructor: y', 'toString: z'),
  };
  for (const [name, bytes] of Object.entries(served)) t.match(await exchange(bytes), /^HTTP\/1\.1 200 /, name);
});
