/** Where tokens are kept between commands: one file in the user's configuration folder that nobody else may read. */
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { CommandError } from './failure.ts';

export const DEFAULT_URL = 'http://localhost:4000';

export interface Account {
  readonly token: string;
  /** Who the token is for, as the service said at `login`. */
  readonly name: string;
}
interface Stored {
  /** The service that commands talk to without `--url`. */
  readonly current?: string;
  readonly services: Readonly<Record<string, Account>>;
}
type Environment = Readonly<Record<string, string | undefined>>;

export class Accounts {
  readonly path: string;

  constructor(env: Environment) {
    this.path = join(env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config'), 'bulkhead', 'accounts.json');
  }

  /** The address that was signed in to last, or the one of a fresh `npm start`. */
  async current(): Promise<string> {
    return (await this.#read()).current ?? DEFAULT_URL;
  }

  async find(url: string): Promise<Account | null> {
    const { services } = await this.#read();
    return Object.hasOwn(services, url) ? (services[url] ?? null) : null;
  }

  /** Keeps a token, and makes its service the one that is talked to. */
  async keep(url: string, account: Account): Promise<void> {
    const { services } = await this.#read();
    await this.#write({ current: url, services: { ...services, [url]: account } });
  }

  /** @returns whether there was one */
  async forget(url: string): Promise<boolean> {
    const { current, services } = await this.#read();
    const { [url]: gone, ...rest } = services;
    await this.#write({ ...(current === undefined || current === url ? {} : { current }), services: rest });
    return gone !== undefined;
  }

  async #read(): Promise<Stored> {
    const text = await readFile(this.path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '{"services":{}}';
      throw error;
    });
    try {
      const stored = JSON.parse(text) as Partial<Stored> | null;
      return { services: {}, ...stored };
    } catch {
      throw new CommandError('failed', `${this.path} is damaged: delete it and run \`bulkhead login\`.`);
    }
  }

  async #write(stored: Stored): Promise<void> {
    await mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
    // Beside it and renamed: a command that is killed leaves the old file or the new one.
    const beside = `${this.path}.${process.pid}`;
    await writeFile(beside, `${JSON.stringify(stored, null, 2)}\n`, { mode: 0o600 });
    await chmod(beside, 0o600);
    await rename(beside, this.path);
  }
}

/** An address as it is kept: no slash at its end, no `/api`. @throws CommandError */
export function serviceUrl(given: string): string {
  const text = /^https?:\/\//.test(given) ? given : `http://${given}`;
  if (!URL.canParse(text)) {
    throw new CommandError('usage', `“${given}” is no address: write it like ${DEFAULT_URL}.`, { exit: 'usage' });
  }
  const { origin, pathname } = new URL(text);
  return `${origin}${pathname.replace(/\/+$/, '').replace(/\/api$/, '')}`;
}
