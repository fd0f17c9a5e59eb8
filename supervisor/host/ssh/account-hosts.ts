/** The SSH hosts that accounts added. Checks where their connections go, and limits how many an account opens. */
import type { Pool } from 'pg';
import { listSshHosts, readSshLogin, type SshHostRow, type SshLogin } from '../../../db/accounts/ssh-hosts.ts';
import type { SecretKeys } from '../../../db/files/secrets.ts';
import { BoundedWorker } from '../../../service/timing/bounded-worker.ts';
import { perMinute, TokenBuckets } from '../../../service/timing/token-bucket.ts';
import { HostError, HostLimitError } from '../host-call.ts';
import { isPublicAddress } from '../http/addresses.ts';
import { type Resolution, resolveHost } from '../http/resolution.ts';
import type { PrivateKeyText } from './private-key.ts';

/** New connections of an account to its own hosts. Without a limit, it could scan the ports of other machines or guess passwords. */
const CONNECTS_PER_MINUTE = 30;
/** Heap of the thread that decrypts private keys. */
const THREAD_HEAP_MB = 64;

export interface SshHost extends Pick<SshHostRow, 'id' | 'name' | 'port' | 'user' | 'hostKeys' | 'revision'> {
  /** Who can change the host. */
  readonly managedBy: 'account' | 'operator';
  /** Resolves and checks the address, and decrypts the login. @throws HostError */
  prepare(signal: AbortSignal): Promise<SshLogin & { readonly address: string }>;
}

export class AccountHosts {
  readonly keys: SecretKeys;
  /** Decrypts keys with a time limit: a key file contains its number of decryption rounds, which may take years. */
  readonly privateKeys = new BoundedWorker<PrivateKeyText, string | null>(
    new URL('./private-key-worker.ts', import.meta.url),
    { name: 'openPrivateKey', heapMegabytes: THREAD_HEAP_MB },
  );
  readonly #pool: Pool;
  readonly #resolution: Resolution;
  readonly #connects = new TokenBuckets(perMinute(CONNECTS_PER_MINUTE));

  constructor(pool: Pool, keys: SecretKeys, resolution: Partial<Resolution> = {}) {
    this.#pool = pool;
    this.keys = keys;
    this.#resolution = { allowPrivate: new Set(), dnsServers: [], ...resolution };
  }

  async list(accountId: string): Promise<readonly SshHost[]> {
    return (await listSshHosts(this.#pool, accountId)).map((row) => this.describe(accountId, row));
  }

  describe(accountId: string, row: SshHostRow): SshHost {
    const { id, name, port, user, hostKeys, revision } = row;
    const prepare = (signal: AbortSignal) => this.#prepare(accountId, row, signal);
    return { id, name, port, user, hostKeys, revision, managedBy: 'account', prepare };
  }

  /** Whether an IP address, or localhost, is neither public nor allowed by the operator. */
  isRefused(address: string, port: number): boolean {
    return !isPublicAddress(address) && !this.#resolution.allowPrivate.has(`${address}:${port}`);
  }

  /** Resolves the host for each connection and returns the checked address, because a second lookup may return another one. */
  async #prepare(accountId: string, { id, address: host, port, revision }: SshHostRow, signal: AbortSignal) {
    const bucket = this.#connects.get(accountId);
    if (!bucket.consume()) {
      const retryAfter = bucket.secondsUntil(1);
      const limit = `${CONNECTS_PER_MINUTE} SSH connections per minute and account`;
      throw new HostLimitError(`rate limit exceeded: ${limit}; retry after ${retryAfter} s`, retryAfter);
    }
    const [address] = await resolveHost({ host, port: String(port) }, this.#resolution, signal);
    // Only the login of this revision: one that was set since may be for another address.
    const login = await readSshLogin(this.#pool, this.keys, { accountId, hostId: id, revision });
    if (address === undefined || login === null) throw new HostError('the SSH host was changed or removed meanwhile');
    return { ...login, address };
  }
}
