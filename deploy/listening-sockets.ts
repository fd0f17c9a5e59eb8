/**
 * Sockets that outlive the processes that serve on them. Whoever connects while one process takes over from another, or
 * is started again after a crash, waits in the socket's own queue and is refused by nobody.
 *
 * Not `reusePort`: there every process has a queue of its own, and what waits in it is reset when the process goes.
 */
import { lookup } from 'node:dns/promises';
import net from 'node:net';

/** A bound address of the parent's, to hand to children. */
export interface HeldSocket {
  /** What the child knows it by. */
  readonly name: SocketName;
  readonly fd: number;
  close(): void;
}
type SocketName = 'service' | 'operations';

interface Handle {
  readonly fd: number;
  close(): void;
}
/** What `cluster` makes its sockets with: bound, but listened on by whoever gets it. Node has no public way to that. */
type MakeHandle = (address: string, port: number, family: 4 | 6) => Handle | number;

/**
 * Binds an address. The first child that serves on it listens.
 *
 * @throws Error when the address cannot be had
 */
export async function holdSocket(name: SocketName, host: string, port: number): Promise<HeldSocket> {
  const { address, family } = await lookup(host, { order: 'ipv4first' });
  const { _createServerHandle: make } = net as unknown as { _createServerHandle: MakeHandle };
  const handle = make(address, port, family === 6 ? 6 : 4);
  if (typeof handle === 'number') throw new Error(`cannot listen on ${host}:${port} (error ${handle}).`);
  return { name, fd: handle.fd, close: () => handle.close() };
}
