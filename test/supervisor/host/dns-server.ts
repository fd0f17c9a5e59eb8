/** A DNS server of a test's own: it answers what the test says, and counts what it was asked. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv4 } from 'node:net';
import type { Teardown } from '../../runner/harness.ts';

export interface DnsServer {
  /** `address:port` */
  readonly address: string;
  /** The queries received, as `A name` or `AAAA name`. */
  readonly queries: readonly string[];
  /** The addresses of a name from now on; IPv4 ones answer A, others AAAA. Given several times: one a look, the last for ever. */
  set(name: string, ...answers: readonly (readonly string[])[]): void;
  /** Refuses all queries about a name from now on. */
  refuse(name: string): void;
}

const TYPES: Readonly<Record<number, string>> = { 1: 'A', 28: 'AAAA' };
const RESPONSE = 0x8180;
const NO_SUCH_NAME = 0x8183;
const REFUSED = 0x8185;

export async function startDns(test: Teardown): Promise<DnsServer> {
  const socket = createSocket('udp4');
  const names = new Map<string, (readonly string[])[]>();
  const refused = new Set<string>();
  const queries: string[] = [];
  socket.on('message', (query, from) => {
    const { name, type, end } = readQuestion(query);
    queries.push(`${type} ${name}`);
    // Every look asks for A and AAAA; the last of a look uses its answers up.
    const known = names.get(name);
    const looks = queries.filter((line) => line === `${type} ${name}`).length;
    const found = known?.[Math.min(looks, known.length) - 1];
    const addresses = found?.filter((address) => isIPv4(address) === (type === 'A'));
    socket.send(
      answerTo(query.subarray(0, end), addresses ?? null, refused.has(name) ? REFUSED : NO_SUCH_NAME),
      from.port,
      from.address,
    );
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  test.teardown(() => new Promise<void>((resolve) => socket.close(() => resolve())));
  return {
    address: `127.0.0.1:${socket.address().port}`,
    queries,
    set: (name, ...answers) => void names.set(name, [...answers]),
    refuse: (name) => void refused.add(name),
  };
}

const HEADER_BYTES = 12;

function readQuestion(query: Buffer): { name: string; type: string; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('ascii', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: TYPES[query.readUInt16BE(at + 1)] ?? '?', end: at + 5 };
}

/** @param failure the header where `addresses` is null */
function answerTo(question: Buffer, addresses: readonly string[] | null, failure: number): Buffer {
  const header = Buffer.from(question);
  header.writeUInt16BE(addresses ? RESPONSE : failure, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(addresses?.length ?? 0, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, ...(addresses ?? []).map(record)]);
}

function record(address: string): Buffer {
  const data = isIPv4(address) ? Buffer.from(address.split('.').map(Number)) : ipv6Bytes(address);
  const head = Buffer.alloc(HEADER_BYTES);
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(isIPv4(address) ? 1 : 28, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data.byteLength, 10);
  return Buffer.concat([head, data]);
}

function ipv6Bytes(address: string): Buffer {
  const [left = '', right = ''] = address.split('::');
  const groups = (text: string) => text.split(':').filter((group) => group !== '');
  const zeros = Array(8 - groups(left).length - groups(right).length).fill('0');
  const all = address.includes('::') ? [...groups(left), ...zeros, ...groups(right)] : groups(address);
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex');
}
