/** Bytes that are no request of HTTP, or one that no route can get. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

/** A client that closes its side early does not want an answer that takes a while. */
const PATIENT = 'Connection: close';

/** Sends bytes over a connection of their own. Resolves with what comes back until it is closed. */
export async function exchange(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  await once(socket, 'connect');
  socket.write(Buffer.from(bytes, 'latin1'));
  if (!bytes.includes(PATIENT)) socket.end();
  return text(socket);
}

const HOST = 'Host: x\r\n';

/** A request without a body. */
export const line = (request: string, ...headers: readonly string[]): string =>
  `${request} HTTP/1.1\r\n${HOST}${headers.map((header) => `${header}\r\n`).join('')}\r\n`;

/** A server's paths that answer GET, and POST with a body of JSON, and what each request to them needs. */
export interface Target {
  readonly get: string;
  readonly postTo: string;
  readonly headers: readonly string[];
}
export type Malformed = Readonly<Record<string, readonly [bytes: string, status: number]>>;

/** Requests by name, each with the status of the answer. */
export function listMalformed({ get, postTo, headers }: Target): Malformed {
  const post = (...more: readonly string[]): string =>
    line(`POST ${postTo}`, 'Content-Type: application/json', ...headers, ...more);
  return {
    'two Host headers': [`GET ${get} HTTP/1.1\r\n${HOST}${HOST}\r\n`, 400],
    'two Host headers of different case': [`GET ${get} HTTP/1.1\r\n${HOST}hOST: y\r\n\r\n`, 400],
    'no Host header': [`GET ${get} HTTP/1.1\r\n\r\n`, 400],
    'an unknown method': [line(`FOO ${get}`), 400],
    'a method in lower case': [line(`get ${get}`), 400],
    'a method without a route': [line(`PATCH ${get}`, PATIENT), 405],
    CONNECT: [`CONNECT x:443 HTTP/1.1\r\n${HOST}\r\n`, 405],
    'an unknown version': [`GET ${get} HTTP/9.9\r\n${HOST}\r\n`, 400],
    'the preface of HTTP/2': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    'a handshake of TLS': ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
    'a path with a blank': [line(`GET ${get} b`), 400],
    'a path beyond ASCII': [line(`GET ${get}\xff`), 400],
    'a path with an invalid escape': [line(`GET ${get}%zz`), 400],
    'a path in invalid UTF-8': [line(`GET ${get}%ff`), 400],
    'a path that is too long': [line(`GET ${get}${'x'.repeat(100_000)}`), 413],
    'a header that is too long': [line(`GET ${get}`, `X: ${'x'.repeat(100_000)}`), 413],
    'a header’s name with a blank': [line(`GET ${get}`, 'bad name: x'), 400],
    'a blank before the colon': [line(`GET ${get}`, 'X : y'), 400],
    'a folded header': [line(`GET ${get}`, 'X: a', ' b'), 400],
    'U+0000 in a header': [line(`GET ${get}`, 'X: a\0b'), 400],
    'a bare carriage return': [line(`GET ${get}`, 'X: a\rb'), 400],
    'line feeds alone': [`GET ${get} HTTP/1.1\nHost: x\n\n`, 400],
    'an unknown expectation': [post('Expect: everything', 'Content-Length: 0'), 400],
    'two lengths': [`${post('Content-Length: 2', 'Content-Length: 3')}{}`, 400],
    'a negative length': [`${post('Content-Length: -1')}{}`, 400],
    'a length beyond all numbers': [`${post('Content-Length: 99999999999999999999999')}{}`, 400],
    'a length and chunks': [`${post('Content-Length: 2', 'Transfer-Encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`, 400],
    'an unknown transfer encoding': [`${post('Transfer-Encoding: gzip')}{}`, 400],
    'an unknown transfer encoding before chunks': [
      `${post(PATIENT, 'Transfer-Encoding: gzip, chunked')}2\r\n{}\r\n0\r\n\r\n`,
      400,
    ],
    'a chunk without a length': [`${post('Transfer-Encoding: chunked')}zz\r\n{}\r\n0\r\n\r\n`, 400],
    'a body that ends early': [`${post('Content-Length: 9')}{}`, 400],
    'a body without a type': [`${line(`POST ${postTo}`, ...headers, PATIENT, 'Content-Length: 2')}{}`, 415],
    'a malformed type': [
      `${line(`POST ${postTo}`, ...headers, PATIENT, 'Content-Type: ;;', 'Content-Length: 2')}{}`,
      415,
    ],
    'an unknown address': [line('GET /unknown', PATIENT), 404],
    'half of a body for an unknown address': [
      `${line('POST /unknown', 'Content-Type: application/json', PATIENT, 'Content-Length: 9')}{}`,
      404,
    ],
  };
}
