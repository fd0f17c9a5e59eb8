/**
 * Listening sockets that outlive the processes that serve on them. While one process replaces another or restarts,
 * connections wait in the socket's backlog and are not refused. Not `reusePort`: there, each process has a separate
 * backlog, whose connections are reset when the process exits.
 */
import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { getSystemErrorName } from 'node:util';

/** A socket that the parent has bound, for its children. */
export interface HeldSocket {
  /** Its name in LISTEN_FDNAMES. */
  readonly name: SocketName;
  readonly fd: number;
  close(): void;
}
type SocketName = 'service' | 'operations';

interface Handle {
  readonly fd: number;
  close(): void;
}
/** An internal function of Node, with which `cluster` binds sockets. Node has no public function that binds without listening. */
type MakeHandle = (address: string, port: number, family: 4 | 6) => Handle | number;

/**
 * Binds an address without listening on it: the first child that serves on the socket listens.
 *
 * @throws Error with one sentence if the address cannot be bound
 */
export async function holdSocket(name: SocketName, host: string, port: number): Promise<HeldSocket> {
  const { address, family } = await lookup(host, { order: 'ipv4first' });
  const { _createServerHandle: make } = net as unknown as { _createServerHandle: MakeHandle };
  const handle = make(address, port, family === 6 ? 6 : 4);
  if (typeof handle === 'number') throw new Error(`Cannot listen on ${host}:${port} (${getSystemErrorName(handle)}).`);
  return { name, fd: handle.fd, close: () => handle.close() };
}
