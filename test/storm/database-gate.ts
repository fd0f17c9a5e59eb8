/**
 * A gate in front of PostgreSQL: shut, every connection through it breaks off and no new one comes through; held, nothing
 * comes through and nothing breaks off, as when a machine or its link vanishes.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Teardown } from '../runner/harness.ts';

export interface Gate {
  /** The database's address, through the gate. */
  readonly url: string;
  shut(): void;
  hold(): void;
  open(): void;
}

/** An open gate. It is shut with the test. */
export async function openGate(t: Teardown, databaseUrl: string): Promise<Gate> {
  const target = new URL(databaseUrl);
  /** Each socket, and where its data goes. */
  const through = new Map<Socket, Socket>();
  let isOpen = true;
  let isHeld = false;
  const server = createServer((client) => {
    if (!isOpen) return void client.destroy();
    const database = connect(Number(target.port), target.hostname);
    for (const [one, other] of [
      [client, database],
      [database, client],
    ] as const) {
      through.set(one, other);
      one.on('error', () => undefined);
      one.once('close', () => {
        through.delete(one);
        other.destroy();
      });
      if (!isHeld) one.pipe(other);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const shut = () => {
    isOpen = false;
    for (const socket of through.keys()) socket.destroy();
  };
  t.teardown(() => {
    shut();
    return new Promise((resolve) => server.close(resolve));
  });
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    shut,
    hold: () => {
      isHeld = true;
      for (const [one, other] of through) one.unpipe(other);
    },
    open: () => {
      isOpen = true;
      if (isHeld) for (const [one, other] of through) one.pipe(other);
      isHeld = false;
    },
  };
}
