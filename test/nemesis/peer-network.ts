/**
 * The network between processes: a gate before the address at which a supervisor is reached by the others and by APIs. It
 * knows which process asks, so that the link of two processes can be cut, one way or both. Nothing breaks off.
 */
import { once } from 'node:events';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Pool } from 'pg';
import type { Teardown } from '../runner/harness.ts';

/** A process by its name; it has another pid after each start. */
interface Station {
  readonly name: string;
  readonly pid: number;
}
/** One way of a connection. */
interface Flow {
  readonly from: string;
  readonly to: string;
  readonly source: Socket;
  readonly target: Socket;
  isHeld: boolean;
}

export class PeerNetwork {
  readonly #stations: readonly Station[];
  readonly #flows = new Set<Flow>();
  /** From whom nothing reaches whom: `from to`. */
  readonly #cuts = new Set<string>();

  /** @param stations all processes; may grow */
  constructor(stations: readonly Station[]) {
    this.#stations = stations;
  }

  /** Lets nothing that one process sends reach the other. */
  cut(from: Station, to: Station): void {
    this.#cuts.add(`${from.name} ${to.name}`);
    this.#update();
  }

  mend(from: Station, to: Station): void {
    this.#cuts.delete(`${from.name} ${to.name}`);
    this.#update();
  }

  /** Opens the gate of a supervisor. @returns its port */
  async openGate(cleanup: Teardown, name: string, port: number): Promise<number> {
    const server = createServer((client) => void this.#admit(client, name, port));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    cleanup.teardown(() => {
      for (const { source, to } of this.#flows) if (to === name) source.destroy();
      server.close();
    });
    return (server.address() as AddressInfo).port;
  }

  async #admit(client: Socket, name: string, port: number): Promise<void> {
    client.on('error', () => undefined);
    const asking = await this.#findStation(client).catch(() => null);
    if (asking === null || client.destroyed) return void client.destroy();
    const supervisor = connect(port, '127.0.0.1');
    supervisor.on('error', () => undefined);
    const there = { from: asking, to: name, source: client, target: supervisor, isHeld: true };
    const back = { from: name, to: asking, source: supervisor, target: client, isHeld: true };
    for (const flow of [there, back]) {
      this.#flows.add(flow);
      // The other side does not hear of an end while the way there is cut.
      flow.source.once('close', () => void (flow.isHeld || this.#end(flow)));
    }
    this.#update();
  }

  #update(): void {
    for (const flow of this.#flows) {
      const isHeld = this.#cuts.has(`${flow.from} ${flow.to}`);
      if (isHeld === flow.isHeld) continue;
      flow.isHeld = isHeld;
      if (isHeld) flow.source.unpipe(flow.target);
      else if (flow.source.destroyed) this.#end(flow);
      else flow.source.pipe(flow.target);
    }
  }

  #end(flow: Flow): void {
    this.#flows.delete(flow);
    flow.target.destroy();
  }

  /** The process at the other end of a connection, as the kernel's tables name it. */
  async #findStation({ remotePort, localPort }: Socket): Promise<string | null> {
    const inode = findInode(await readFile('/proc/net/tcp', 'utf8'), remotePort ?? 0, localPort ?? 0);
    if (inode === null) return null;
    for (const { name, pid } of this.#stations) {
      const folder = `/proc/${pid}/fd`;
      const files = await readdir(folder).catch(() => []);
      const links = await Promise.all(files.map((file) => readlink(`${folder}/${file}`).catch(() => '')));
      if (links.includes(`socket:[${inode}]`)) return name;
    }
    return null;
  }
}

/** The inode of the socket with these ports in a table as `/proc/net/tcp`. */
function findInode(table: string, localPort: number, remotePort: number): string | null {
  const format = (port: number): string => `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  for (const line of table.split('\n')) {
    const [, local, remote, , , , , , , inode] = line.trim().split(/\s+/);
    if (local?.endsWith(format(localPort)) && remote?.endsWith(format(remotePort))) return inode ?? null;
  }
  return null;
}

/** Lets supervisors be known by the addresses of their gates. @param gates by the ports that they listen on */
export async function announceGates(pool: Pool, gates: ReadonlyMap<number, number>): Promise<void> {
  await pool.query(`
    CREATE TABLE nemesis_gates (direct text PRIMARY KEY, gate text NOT NULL);
    CREATE FUNCTION nemesis_lead_through_gate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      new.address := coalesce((SELECT gate FROM nemesis_gates WHERE direct = new.address), new.address);
      RETURN new;
    END $$;
    CREATE TRIGGER nemesis_lead_through_gate BEFORE INSERT ON supervisors
      FOR EACH ROW EXECUTE FUNCTION nemesis_lead_through_gate();`);
  const address = (port: number): string => `http://127.0.0.1:${port}`;
  for (const [direct, gate] of gates)
    await pool.query('INSERT INTO nemesis_gates VALUES ($1, $2)', [address(direct), address(gate)]);
}
