/**
 * Connections to SSH hosts. Each runs one command at a time and belongs to one installation. After a successful command
 * it is kept for the next one for a while; in all other cases it is closed.
 */
import { createHash } from 'node:crypto';
import type { Client } from 'ssh2';
import { SECOND } from '../../../sdk/contract/limits.ts';
import { AmountsByKey } from '../../../service/timing/amounts-by-key.ts';
import { HostError } from '../host-call.ts';
import type { SshTarget } from './hosts.ts';

export interface ConnectionBounds {
  /** Maximum connections of this server. */
  readonly total: number;
  /** Maximum connections of one installation. */
  readonly perInstallation: number;
  /** An unused connection is closed after this time. Milliseconds. */
  readonly idleMs: number;
}
const connectionBounds: ConnectionBounds = { total: 100, perInstallation: 4, idleMs: 30 * SECOND };

const CONNECT_MS = 10 * SECOND;
const KEEPALIVE_MS = 15 * SECOND;
/** Time for a connection to close before it is destroyed. Milliseconds. */
const END_MS = SECOND;

export interface SshConnection {
  readonly installationId: string;
  readonly hostId: string;
  readonly client: Client;
}
interface Held extends SshConnection {
  idle: NodeJS.Timeout | null;
}

export class SshConnections {
  readonly #held = new Set<Held>();
  readonly #bounds: ConnectionBounds;
  readonly #starting = new AmountsByKey();

  constructor(bounds: ConnectionBounds = connectionBounds) {
    this.#bounds = bounds;
  }

  get size(): number {
    return this.#held.size;
  }

  /**
   * Returns a connection for one command.
   *
   * @throws HostError when there are too many, or the host cannot be reached, shows a different key or rejects the
   *   login
   */
  async acquire(installationId: string, target: SshTarget, signal: AbortSignal): Promise<SshConnection> {
    for (const held of this.#held) {
      if (held.idle === null || held.installationId !== installationId || held.hostId !== target.id) continue;
      clearTimeout(held.idle);
      held.idle = null;
      return held;
    }
    this.#makeRoom(installationId);
    return this.#starting.during(installationId, async () => {
      const held: Held = { installationId, hostId: target.id, client: await connect(target, signal), idle: null };
      this.#held.add(held);
      held.client.on('error', () => undefined);
      held.client.once('close', () => this.#forget(held));
      return held;
    });
  }

  /** Keeps the connection for the next command. */
  giveBack(connection: SshConnection): void {
    const held = connection as Held;
    if (!this.#held.has(held)) return;
    held.idle = setTimeout(() => this.end(held), this.#bounds.idleMs);
    held.idle.unref();
  }

  /** Closes a connection, by force if the other side does not respond. */
  end(connection: SshConnection): void {
    const { client } = connection;
    this.#forget(connection as Held);
    const force = setTimeout(() => client.destroy(), END_MS);
    client.once('close', () => clearTimeout(force));
    client.end();
  }

  /** Closes the unused connections of an installation that was changed. */
  drop(installationId: string): void {
    for (const held of [...this.#held])
      if (held.idle !== null && held.installationId === installationId) this.end(held);
  }

  /** Closes all unused connections. */
  dropAll(): void {
    for (const held of [...this.#held]) if (held.idle !== null) this.end(held);
  }

  /** Closes all connections at once. */
  close(): void {
    for (const held of [...this.#held]) {
      this.#forget(held);
      held.client.destroy();
    }
  }

  #forget(held: Held): void {
    if (held.idle !== null) clearTimeout(held.idle);
    this.#held.delete(held);
  }

  /** Rejects instead of waiting: a command could wait for one whose hooks wait for it. */
  #makeRoom(installationId: string): void {
    const own = [...this.#held].filter((held) => held.installationId === installationId);
    const starting = this.#starting.get(installationId);
    if (own.length + starting >= this.#bounds.perInstallation) this.#endOldestIdle(own, this.#bounds.perInstallation);
    if (this.#held.size + this.#starting.total >= this.#bounds.total)
      this.#endOldestIdle([...this.#held], this.#bounds.total);
  }

  #endOldestIdle(among: readonly Held[], most: number): void {
    const unused = among.find(({ idle }) => idle !== null);
    if (!unused) throw new HostError(`${most} SSH commands are running already; try again when one has ended`);
    this.end(unused);
  }
}

/** Logs in with the configured key after checking the host's pinned key. */
async function connect(target: SshTarget, signal: AbortSignal): Promise<Client> {
  const { default: ssh2 } = await import('ssh2');
  const client = new ssh2.Client();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let isPinned = true;
  const onAbort = () => reject(new HostError('the call ended before the host was reached'));
  signal.addEventListener('abort', onAbort, { once: true });
  client.once('ready', resolve);
  client.on('error', (error) => reject(new HostError(isPinned ? failure(target, error) : otherKey(target))));
  client.once('close', () => reject(new HostError(`${target.name} closed the connection`)));
  try {
    if (signal.aborted) onAbort();
    else
      client.connect({
        host: target.address,
        port: target.port,
        username: target.user,
        privateKey: target.privateKey,
        ...(target.passphrase === undefined ? {} : { passphrase: target.passphrase }),
        authHandler: ['publickey'],
        readyTimeout: CONNECT_MS,
        keepaliveInterval: KEEPALIVE_MS,
        hostVerifier: (key: Buffer) => {
          isPinned = target.hostKeys.includes(hashHostKey(key));
          return isPinned;
        },
      });
    await promise;
    return client;
  } catch (error) {
    client.on('error', () => undefined);
    client.destroy();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

const hashHostKey = (key: Buffer): string =>
  `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;

const otherKey = ({ name }: SshTarget): string =>
  `${name} shows another host key than the pinned one, so nothing was sent; the operator must look at it`;

/** Fixed texts: those of the library and the other side may contain addresses and keys. */
function failure({ name }: SshTarget, error: Error & { level?: string }): string {
  if (error.level === 'client-authentication') return `${name} does not accept the configured key`;
  if (error.level === 'client-timeout') return `${name} did not answer in ${CONNECT_MS} ms`;
  return `${name} cannot be reached`;
}
