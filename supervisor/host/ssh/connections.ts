/**
 * Connections to SSH hosts. Each runs one command at a time and belongs to one installation. After a successful command
 * it is kept for the next one for a while; in all other cases it is closed.
 */
import { createHash } from 'node:crypto';
import { addAbortListener } from 'node:events';
import type {
  Algorithms,
  AnyAuthMethod,
  AuthenticationType,
  AuthHandlerMiddleware,
  Client,
  KeyboardInteractiveCallback,
  Prompt,
} from 'ssh2';
import type { SshLogin } from '../../../db/accounts/ssh-hosts.ts';
import { mayTakePlace } from '../../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../../db/timing/amounts-by-key.ts';
import { SECOND } from '../../../sdk/contract/limits.ts';
import type { TokenBuckets } from '../../../service/timing/token-bucket.ts';
import { SecretMask } from '../../records/secret-mask.ts';
import { HostError, HostLimitError } from '../host-call.ts';
import type { SshHost } from './account-hosts.ts';
import { MeteredSocket, openProcessorRates } from './metered-socket.ts';

export interface ConnectionBounds {
  /** Maximum connections of this server; each account may use its share of them. */
  readonly total: number;
  /** Maximum connections of one installation. */
  readonly perInstallation: number;
  /** An unused connection is closed after this time. Milliseconds. */
  readonly idleMs: number;
}
const connectionBounds: ConnectionBounds = { total: 100, perInstallation: 4, idleMs: 30 * SECOND };

const CONNECT_MS = 10 * SECOND;
const KEEPALIVE_MS = 15 * SECOND;
/** When to try again if all connections are in use: commands may end at any time. Seconds. */
const PLACE_RETRY_S = 1;
/** Time for a connection to close before it is destroyed. Milliseconds. */
const END_MS = SECOND;
/**
 * Each of these costs the service a few milliseconds at most. Left out: exchanges with large groups, which a host may
 * ask for again and again, those of groups that the host itself names, whose check takes minutes, and compression, because a
 * packet of 256 KiB may grow a thousandfold.
 */
const ALGORITHMS: Algorithms = {
  kex: [
    'curve25519-sha256',
    'curve25519-sha256@libssh.org',
    'ecdh-sha2-nistp256',
    'ecdh-sha2-nistp384',
    'ecdh-sha2-nistp521',
    'diffie-hellman-group14-sha256',
  ],
  compress: ['none'],
};

export interface ConnectionOwner {
  readonly accountId: string;
  /** For whom connections are kept: an installation, or the agents of an account. */
  readonly connectionOwner: string;
  /** Maximum connections of this owner. Default: those of an installation. */
  readonly connectionsMax?: number;
}
export interface SshConnection extends ConnectionOwner {
  readonly hostId: string;
  readonly client: Client;
  /** To close the connection at once: `client.destroy()` does nothing after `client.end()`, or after the host has ended its side. */
  readonly socket: MeteredSocket;
  /** Hides the login in what the host answers. */
  readonly mask: SecretMask;
}
/** The result of a test of a host, also if the login failed. */
export interface SshTest {
  /** The fingerprint of its key; null: it was not reached. */
  readonly hostKey: string | null;
  /** Null: the login succeeded. */
  readonly fault: string | null;
}
interface Held extends SshConnection {
  readonly revision: string;
  idle: NodeJS.Timeout | null;
}

export class SshConnections {
  readonly #held = new Set<Held>();
  readonly #bounds: ConnectionBounds;
  readonly #starting = new AmountsByKey();
  readonly #startingOfAccounts = new AmountsByKey();
  readonly #rates: TokenBuckets;

  /** @param now the clock of the accounts' processor time, milliseconds */
  constructor(bounds: ConnectionBounds = connectionBounds, now?: () => number) {
    this.#bounds = bounds;
    this.#rates = openProcessorRates(now);
  }

  get size(): number {
    return this.#held.size;
  }

  /**
   * Returns a connection for one command.
   *
   * @throws HostLimitError when there are too many, HostError when the host cannot be reached, shows a different key or rejects
   *   the login
   */
  async acquire(owner: ConnectionOwner, host: SshHost, signal: AbortSignal): Promise<SshConnection> {
    if (host.hostKeys.length === 0)
      throw new HostError(
        `${host.name} has no pinned host key, so nothing was sent; its owner tests the host, compares the key that it shows, and pins it`,
      );
    this.#requireShare(owner);
    for (const held of this.#held) {
      if (held.idle === null || !isOwnedBy(held, owner) || !isSameHost(held, host)) continue;
      clearTimeout(held.idle);
      held.idle = null;
      return held;
    }
    return this.#start(owner, async () => {
      const mask = new SecretMask();
      const { client, socket } = await connect(host, this.#openSocket(owner), signal, { mask });
      const { accountId, connectionOwner } = owner;
      const { id: hostId, revision } = host;
      const held: Held = { accountId, connectionOwner, hostId, revision, client, socket, mask, idle: null };
      this.#held.add(held);
      // After an error, or when the host has ended its side, it runs no other command, even if it is not closed yet.
      held.client.on('error', () => this.end(held));
      held.client.once('end', () => this.end(held));
      held.client.once('close', () => this.#forget(held));
      return held;
    });
  }

  /** Connects and logs in, and runs nothing. Counts as a connection of the owner. @throws HostLimitError when there are too many */
  async test(owner: ConnectionOwner, host: SshHost, signal: AbortSignal): Promise<SshTest> {
    this.#requireShare(owner);
    return this.#start(owner, async () => {
      let hostKey: string | null = null;
      try {
        const observers = { onHostKey: (shown: string) => (hostKey = shown) };
        const { client, socket } = await connect(host, this.#openSocket(owner), signal, observers);
        client.on('error', () => undefined);
        socket.destroy();
        return { hostKey, fault: null };
      } catch (error) {
        // A limit is no fault of the host.
        if (!(error instanceof HostError) || error instanceof HostLimitError) throw error;
        return { hostKey, fault: error.message };
      }
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
    const { client, socket } = connection;
    this.#forget(connection as Held);
    const force = setTimeout(() => socket.destroy(), END_MS);
    client.once('close', () => clearTimeout(force));
    client.end();
  }

  /** Closes the unused connections of an installation that was changed. */
  drop(installationId: string): void {
    for (const held of [...this.#held])
      if (held.idle !== null && held.connectionOwner === installationId) this.end(held);
  }

  /** Closes all unused connections. */
  dropAll(): void {
    for (const held of [...this.#held]) if (held.idle !== null) this.end(held);
  }

  /** Closes all connections at once. */
  close(): void {
    for (const held of [...this.#held]) {
      this.#forget(held);
      held.socket.destroy();
    }
  }

  #openSocket({ accountId }: ConnectionOwner): MeteredSocket {
    return new MeteredSocket(accountId, this.#rates);
  }

  #forget(held: Held): void {
    if (held.idle !== null) clearTimeout(held.idle);
    this.#held.delete(held);
  }

  /** Rejects instead of waiting: a command could wait for one whose hooks wait for it. Unused connections count as free. */
  #requireShare({ accountId }: ConnectionOwner): void {
    const used = [...this.#held].filter(({ idle }) => idle === null);
    const total = used.length + this.#starting.total;
    const own = used.filter((held) => held.accountId === accountId).length + this.#startingOfAccounts.get(accountId);
    if (!mayTakePlace(own, this.#bounds.total - total))
      throw new HostLimitError(`this account runs ${own} SSH commands; try again when one has ended`, PLACE_RETRY_S);
  }

  async #start<T>(owner: ConnectionOwner, connectTo: () => Promise<T>): Promise<T> {
    const own = [...this.#held].filter((held) => isOwnedBy(held, owner));
    const starting = this.#starting.get(owner.connectionOwner);
    const { total, perInstallation } = this.#bounds;
    const { connectionsMax = perInstallation } = owner;
    if (own.length + starting >= connectionsMax) this.#endOldestIdle(own, connectionsMax);
    if (this.#held.size + this.#starting.total >= total) this.#endOldestIdle([...this.#held], total);
    return this.#startingOfAccounts.during(owner.accountId, () =>
      this.#starting.during(owner.connectionOwner, connectTo),
    );
  }

  #endOldestIdle(among: readonly Held[], max: number): void {
    const unused = among.find(({ idle }) => idle !== null);
    if (!unused)
      throw new HostLimitError(`${max} SSH commands are running already; try again when one has ended`, PLACE_RETRY_S);
    this.end(unused);
  }
}

const isOwnedBy = (held: Held, { connectionOwner }: ConnectionOwner): boolean =>
  held.connectionOwner === connectionOwner;
const isSameHost = (held: Held, { id, revision }: SshHost): boolean => held.hostId === id && held.revision === revision;

interface Observers {
  /** Learns the login. */
  readonly mask?: SecretMask;
  onHostKey?(fingerprint: string): void;
}

/** Logs in after checking the address and the host's pinned key. */
async function connect(
  host: SshHost,
  socket: MeteredSocket,
  signal: AbortSignal,
  { mask, onHostKey }: Observers,
): Promise<Pick<SshConnection, 'client' | 'socket'>> {
  const { address, ...login } = await host.prepare(signal);
  for (const [name, value] of Object.entries(login)) mask?.add(name, value);
  const { default: ssh2 } = await import('ssh2');
  const client = new ssh2.Client();
  socket.on('error', () => undefined);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let refusal: string | null = null;
  const onAbort = () => reject(new HostError('the call ended before the host was reached'));
  using _listening = addAbortListener(signal, onAbort);
  client.once('ready', resolve);
  client.on('error', (error) => reject(new HostError(refusal ?? describeFailure(host, login, error))));
  client.once('close', () => reject(new HostError(`${host.name} closed the connection`)));
  try {
    if (signal.aborted) onAbort();
    else {
      // First: the library writes to the socket at once.
      socket.connectTo(address, host.port);
      client.connect({
        sock: socket,
        username: host.user,
        ...login,
        algorithms: ALGORITHMS,
        authHandler: createLogin(host, login),
        readyTimeout: CONNECT_MS,
        keepaliveInterval: KEEPALIVE_MS,
        hostVerifier: (key: Buffer) => {
          const shown = hashHostKey(key);
          onHostKey?.(shown);
          refusal = findKeyRefusal(host, shown);
          return refusal === null;
        },
      });
    }
    await promise;
    return { client, socket };
  } catch (error) {
    client.on('error', () => undefined);
    socket.destroy();
    throw error;
  }
}

/**
 * Offers the key or the password. Hosts without the method `password` ask for it with `keyboard-interactive`. A host that has the method
 * does not get a wrong password twice, because it may lock the user.
 */
function createLogin({ user }: SshHost, { password }: Omit<SshLogin, 'address'>): AuthHandlerMiddleware {
  let attempts = 0;
  return (
    methodsLeft: readonly AuthenticationType[],
    isPartial: boolean | null,
  ): AnyAuthMethod | AuthenticationType | false => {
    attempts += 1;
    // It accepted the password, and asks for more: a code, which the password is not.
    if (isPartial === true) return false;
    if (attempts === 1) return password === undefined ? 'publickey' : 'password';
    const isAsked = methodsLeft.includes('keyboard-interactive') && !methodsLeft.includes('password');
    if (attempts > 2 || password === undefined || !isAsked) return false;
    return { type: 'keyboard-interactive', username: user, prompt: createAnswer(password) };
  };
}

/**
 * Answers the first question if it is the only one and its answer is not shown. All others, such as a later one for a code, get an
 * empty answer, so that the login fails.
 */
function createAnswer(password: string) {
  let isAnswered = false;
  return (
    _name: string,
    _text: string,
    _lang: string,
    prompts: Prompt[],
    finish: KeyboardInteractiveCallback,
  ): void => {
    const isPassword = !isAnswered && prompts.length === 1 && prompts[0]?.echo === false;
    isAnswered = true;
    finish(isPassword ? [password] : prompts.map(() => ''));
  };
}

const hashHostKey = (key: Buffer): string =>
  `SHA256:${createHash('sha256')
    .update(key)
    .digest('base64')
    .replace(/={1,2}$/, '')}`;

/** Null: the key is a pinned one. */
function findKeyRefusal({ name, hostKeys, managedBy }: SshHost, shown: string): string | null {
  if (hostKeys.includes(shown)) return null;
  if (hostKeys.length === 0)
    return `${name} has no pinned host key, so nothing was sent; it shows ${shown}: compare it with the host's own, then pin it`;
  return managedBy === 'operator'
    ? `${name} shows another host key than the pinned one, so nothing was sent; the operator must look at it`
    : `${name} shows another host key than the pinned one, so nothing was sent; it shows ${shown}: pin it only if the host's owner says that it changed`;
}

/** Fixed texts: those of the library and the other side may contain addresses and keys. */
function describeFailure({ name }: SshHost, { password }: SshLogin, error: Error & { level?: string }): string {
  if (error.level === 'client-authentication')
    return `${name} does not accept the configured ${password === undefined ? 'key' : 'password'}`;
  if (error.level === 'client-timeout') return `${name} did not answer in ${CONNECT_MS} ms`;
  return `${name} cannot be reached`;
}
