/** The SSH hosts that accounts added: where they may lead, and how often they are called. */
import type { Pool } from 'pg';
import { listSshHosts, readSshLogin, type SshHostRow, type SshLogin } from '../../../db/accounts/ssh-hosts.ts';
import type { SecretKeys } from '../../../db/files/secrets.ts';
import { BoundedWorker } from '../../../service/timing/bounded-worker.ts';
import { perMinute, TokenBuckets } from '../../../service/timing/token-bucket.ts';
import { HostError } from '../host-call.ts';
import { isPublicAddress } from '../http/addresses.ts';
import { type Resolution, resolveHost } from '../http/resolution.ts';
import type { PrivateKeyText } from './private-key.ts';

/** New connections of an account to its own hosts. Otherwise it could look for open ports or guess passwords elsewhere. */
const CONNECTS_PER_MINUTE = 30;
/** Heap of the thread that opens private keys. */
const THREAD_HEAP_MB = 64;

export interface SshHost extends Pick<SshHostRow, 'id' | 'name' | 'port' | 'user' | 'hostKeys' | 'revision'> {
  /** Who changes the host. */
  readonly keeper: 'account' | 'operator';
  /** Checks where the connection may go, and opens the login. @throws HostError */
  prepare(signal: AbortSignal): Promise<SshLogin & { readonly address: string }>;
}

export class AccountHosts {
  readonly keys: SecretKeys;
  /** A key says itself how many rounds its decryption takes, up to years. */
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
    return { id, name, port, user, hostKeys, revision, keeper: 'account', prepare };
  }

  /** Whether an address that is no name can be refused before any connection: it is not public, and not allowed. */
  isRefused(address: string, port: number): boolean {
    return isPublicAddress(address) ? false : !this.#resolution.allowPrivate.has(`${address}:${port}`);
  }

  /** Looks the address up for each connection, which then goes to the checked address and nowhere else. */
  async #prepare(accountId: string, { id, address: host, port }: SshHostRow, signal: AbortSignal) {
    const bucket = this.#connects.get(accountId);
    if (!bucket.consume())
      throw new HostError(
        `the account made ${CONNECTS_PER_MINUTE} SSH connections within a minute; try again in ${bucket.secondsUntil(1)} s`,
      );
    const [address] = await resolveHost({ host, port: String(port) }, this.#resolution, signal);
    const login = await readSshLogin(this.#pool, this.keys, { accountId, hostId: id });
    if (address === undefined || login === null) throw new HostError('the SSH host was removed');
    return { ...login, address };
  }
}
