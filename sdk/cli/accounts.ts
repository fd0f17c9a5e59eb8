/** Stores tokens between commands, in one file of the user's configuration folder that only the user can read. */
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { isDiskFull } from '../files/disk-full.ts';
import { makeFolder } from '../files/make-folder.ts';
import { PRIVATE_FILE, replaceFile } from '../files/replace-file.ts';
import { removeTrailingSlashes } from '../session/web-addresses.ts';
import { CommandError } from './failure.ts';

const DEFAULT_URL = 'http://localhost:4000';

/** Codes of the system's errors for a folder that the user cannot use: no permission, read-only, below a file, or in /proc. */
const NO_ACCESS: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'ENOENT']);

interface Account {
  readonly token: string;
  /** Name of the account, as the service returned it at login. */
  readonly name: string;
}
interface StoredAccounts {
  /** Address of the service that commands use without `--url`. */
  readonly current?: string;
  readonly services: Readonly<Record<string, Account>>;
}
type Environment = Readonly<Record<string, string | undefined>>;

export class Accounts {
  readonly path: string;

  constructor(env: Environment) {
    this.path = join(env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config'), 'bulkhead', 'accounts.json');
  }

  /** Returns the address of the last login, or the default address. */
  async getCurrentUrl(): Promise<string> {
    return (await this.#read()).current ?? DEFAULT_URL;
  }

  async find(url: string): Promise<Account | null> {
    const { services } = await this.#read();
    return Object.hasOwn(services, url) ? (services[url] ?? null) : null;
  }

  /** Stores a token and makes its service the current one. */
  async save(url: string, account: Account): Promise<void> {
    const { services } = await this.#read();
    await this.#write({ current: url, services: { ...services, [url]: account } });
  }

  /** Removes the token of a service. @returns whether there was one */
  async remove(url: string): Promise<boolean> {
    const { current, services } = await this.#read();
    const { [url]: removed, ...rest } = services;
    // Where tokens come from the environment, the folder is often one that cannot be written.
    if (removed === undefined && current !== url) return false;
    await this.#write({ ...(current === undefined || current === url ? {} : { current }), services: rest });
    return removed !== undefined;
  }

  async #read(): Promise<StoredAccounts> {
    const text = await readFile(this.path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return '{"services":{}}';
      throw this.#toAccessError(error, 'read from');
    });
    try {
      const stored = JSON.parse(text) as Partial<StoredAccounts> | null;
      return { ...stored, services: { ...stored?.services } };
    } catch {
      throw new CommandError('failed', `${this.path} is not valid JSON. Delete it and run \`bulkhead login\`.`);
    }
  }

  async #write(stored: StoredAccounts): Promise<void> {
    try {
      await this.#replaceFile(stored);
    } catch (error) {
      throw this.#toAccessError(error as NodeJS.ErrnoException, 'stored in');
    }
  }

  /** Says what to do where the user has no access to the folder or its disk is full; other errors stay as they are. */
  #toAccessError(error: NodeJS.ErrnoException, action: 'read from' | 'stored in'): Error {
    const isFull = isDiskFull(error);
    if (!isFull && !NO_ACCESS.has(error.code ?? '')) return error;
    const advice = 'set XDG_CONFIG_HOME to a folder that you can write to, or set BULKHEAD_URL and BULKHEAD_TOKEN';
    const room = isFull ? ' (its disk is full): make room there,' : ':';
    return new CommandError('failed', `Tokens cannot be ${action} ${dirname(this.path)}${room} ${advice}.`);
  }

  async #replaceFile(stored: StoredAccounts): Promise<void> {
    await makeFolder(dirname(this.path));
    await replaceFile(this.path, `${JSON.stringify(stored, null, 2)}\n`, PRIVATE_FILE);
  }
}

/** Host names and addresses of this machine, as `URL` writes them. */
export const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/;

/**
 * Normalizes an address: no trailing slash, no `/api`. Without a scheme it is `https`, because the token must not cross a network
 * unencrypted; on this machine it is `http`.
 *
 * @throws CommandError
 */
export function normalizeServiceUrl(address: string): string {
  const hasScheme = /^https?:\/\//i.test(address);
  // `ftp://host` would otherwise become the host `ftp`.
  const hasOtherScheme = !hasScheme && address.includes('://');
  const url = hasOtherScheme ? null : URL.parse(hasScheme ? address : `https://${address}`);
  if (url === null) {
    throw new CommandError('usage', `“${address}” is not an address. Use the form ${DEFAULT_URL}.`);
  }
  if (!hasScheme && LOOPBACK.test(url.hostname)) return normalizeServiceUrl(`http://${address}`);
  const { origin, pathname } = url;
  return `${origin}${removeTrailingSlashes(pathname).replace(/\/api$/, '')}`;
}
