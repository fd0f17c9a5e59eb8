/** A gate in front of PostgreSQL: shut, every connection through it breaks off and no new one comes through. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Teardown } from '../runner/harness.ts';

export interface Gate {
  /** The database's address, through the gate. */
  readonly url: string;
  shut(): void;
  open(): void;
}

/** An open gate. It is shut with the test. */
export async function openGate(t: Teardown, databaseUrl: string): Promise<Gate> {
  const target = new URL(databaseUrl);
  const through = new Set<Socket>();
  let isOpen = true;
  const server = createServer((client) => {
    if (!isOpen) return void client.destroy();
    const database = connect(Number(target.port), target.hostname);
    for (const [one, other] of [
      [client, database],
      [database, client],
    ] as const) {
      through.add(one);
      one.on('error', () => undefined);
      one.once('close', () => {
        through.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const shut = () => {
    isOpen = false;
    for (const socket of through) socket.destroy();
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
    open: () => {
      isOpen = true;
    },
  };
}
