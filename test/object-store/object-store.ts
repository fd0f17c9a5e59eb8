/**
 * A server of the S3 interface (`s3rver`), behind a proxy that checks each signature with another implementation (`aws4`) and
 * can answer in the server's place.
 */
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';
import { installPackages } from '../runner/installed-packages.ts';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const BUCKET = 'packages';
const REGION = 'eu-central-1';
const CREDENTIALS = { accessKeyId: 'S3RVER', secretAccessKey: 'a secret of 20 chars' };
const FORBIDDEN = 403;

/** Answers in the server's place; `hang up` closes the connection without an answer. */
type Answer = { readonly status: number; readonly body: string } | 'hang up';
interface Seen {
  readonly method: string;
  readonly path: string;
}
export interface ObjectStoreFixture {
  /** The settings of a service that keeps its blobs here. */
  readonly settings: Readonly<
    Record<'BLOBS' | 'AWS_ENDPOINT_URL' | 'AWS_REGION' | 'AWS_ACCESS_KEY_ID' | 'AWS_SECRET_ACCESS_KEY', string>
  >;
  readonly requests: readonly Seen[];
  /** Bytes of objects that were sent. */
  countSent(): number;
  /** Asked before each request; null lets it pass. It may wait. */
  intercept(answer: (seen: Seen) => Promise<Answer | null> | Answer | null): void;
  /** How many blobs the bucket holds. */
  countObjects(): Promise<number>;
}

export async function startObjectStore(t: Teardown): Promise<ObjectStoreFixture> {
  await installPackages(FOLDER);
  const { default: S3rver } = await import('s3rver');
  const directory = await temporaryFolder(t);
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    directory,
    configureBuckets: [{ name: BUCKET }],
  });
  const { port } = await server.run();
  t.teardown(() => server.close());
  const requests: Seen[] = [];
  let sentBytes = 0;
  const onSent = (chunk: Buffer): void => {
    sentBytes += chunk.byteLength;
  };
  let answer: Parameters<ObjectStoreFixture['intercept']>[0] = () => null;
  const proxy = createServer((incoming, response) => void pass(incoming, response));
  async function pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(incoming);
    const seen = { method: incoming.method ?? '', path: incoming.url ?? '' };
    requests.push(seen);
    const own = (await isSigned(incoming)) ? await answer(seen) : { status: FORBIDDEN, body: '<Code>Forged</Code>' };
    if (own === 'hang up') response.destroy();
    else if (own !== null) response.writeHead(own.status).end(own.body);
    else forward(port, incoming, body, response, onSent);
  }
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  return {
    settings: {
      BLOBS: `s3://${BUCKET}/one/cluster`,
      AWS_ENDPOINT_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
      AWS_REGION: REGION,
      AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
    },
    requests,
    countSent: () => sentBytes,
    intercept(next) {
      answer = next;
    },
    countObjects: async () =>
      (await readdir(join(directory, BUCKET), { recursive: true })).filter((name) =>
        /\/blobs\/.*_object$/.test(`/${name}`),
      ).length,
  };
}

/** Whether another implementation makes the same signature. */
async function isSigned({ method, url, headers }: IncomingMessage): Promise<boolean> {
  const { default: aws4 } = await import('aws4');
  const names = /SignedHeaders=([a-z0-9;-]+)/.exec(headers.authorization ?? '')?.[1]?.split(';') ?? [];
  const signed = Object.fromEntries(names.map((name) => [name, headers[name]]));
  const expected = aws4.sign(
    { service: 's3', region: REGION, method, path: url, host: headers.host, headers: signed },
    CREDENTIALS,
  );
  return expected.headers.Authorization === headers.authorization;
}

function forward(
  port: number,
  { method, url, headers }: IncomingMessage,
  body: Buffer,
  response: ServerResponse,
  onSent: (chunk: Buffer) => void,
): void {
  const outgoing = request({ host: '127.0.0.1', port, method, path: url, headers, agent: false }, (answer) => {
    response.writeHead(answer.statusCode ?? 0, answer.headers);
    answer.on('data', onSent).pipe(response);
  });
  outgoing.end(body);
}
