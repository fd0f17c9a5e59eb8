/** The SSH hosts of an account: its own, and those that the operator's file gives it, which is read at start-up. */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Pool } from 'pg';
import { z } from 'zod';
import { findValue } from '../../../db/postgres/rows.ts';
import { id } from '../../../sdk/contract/payloads.ts';
import { SettingsError } from '../../../service/settings/settings.ts';
import { readSettingsFile } from '../../../service/settings/settings-file.ts';
import type { AccountHosts, SshHost } from './account-hosts.ts';

export const SSH_PORT = 22;
const EVERYBODY = '*';

export const hostKey = z
  .string()
  .regex(/^SHA256:[A-Za-z0-9+/]{43}$/, 'must look like SHA256:… as ssh-keygen -lf prints it, without a = at its end');
const hostsFile = z
  .array(
    z.strictObject({
      id,
      name: z.string().min(1).max(200),
      address: z.string().min(1).max(255),
      port: z.number().int().min(1).max(65_535).default(SSH_PORT),
      user: z.string().min(1).max(255),
      /** Path of the private key, relative to the folder of the file. */
      privateKeyFile: z.string().min(1),
      passphrase: z.string().optional(),
      /** Accepted host keys; any other key ends the connection before the login. */
      hostKeys: z.array(hostKey).min(1),
      /** User names whose plugins and agents may use the host; `*`: everyone. */
      accounts: z.array(z.string().min(1)).min(1),
    }),
  )
  .max(1000);

export interface SshTarget extends Omit<z.output<typeof hostsFile>[number], 'privateKeyFile' | 'passphrase'> {
  /** Decrypted. */
  readonly privateKey: string;
}

/**
 * Reads the file of `SSH_HOSTS_FILE` and every key it names.
 *
 * @param path undefined: no hosts
 * @throws SettingsError that names the setting and the fault, never a key
 */
export async function readSshTargets(path: string | undefined): Promise<readonly SshTarget[]> {
  if (path === undefined) return [];
  const hosts = await readSettingsFile('SSH_HOSTS_FILE', path, hostsFile);
  const twice = hosts.find((host, index) => hosts.findIndex((other) => other.id === host.id) !== index);
  if (twice) throw new SettingsError(`SSH_HOSTS_FILE: two hosts have the id ${twice.id}.`);
  return Promise.all(
    hosts.map(async ({ privateKeyFile, passphrase, ...host }) => ({
      ...host,
      privateKey: await readKey({ id: host.id, passphrase }, resolve(dirname(path), privateKeyFile)),
    })),
  );
}

async function readKey(host: { id: string; passphrase?: string | undefined }, path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new SettingsError(`SSH_HOSTS_FILE: the private key of ${host.id} cannot be read (${error.code}).`);
  });
  // Loaded only if there are hosts, because it loads a large library.
  const { openPrivateKey } = await import('./private-key.ts');
  const key = openPrivateKey({ text, passphrase: host.passphrase });
  if (key === null)
    throw new SettingsError(
      `SSH_HOSTS_FILE: the file of ${host.id} has no private key of a supported type, or its passphrase is missing or wrong.`,
    );
  return key;
}

export interface SshHosts {
  /** Lists the hosts that an account may use: the operator's in the order of the file, then its own. */
  listForAccount(accountId: string): Promise<readonly SshHost[]>;
  readonly ofAccounts: AccountHosts;
}

/** Looks up the account's name each time: it never changes, and the command costs far more. */
export function openSshHosts(pool: Pool, targets: readonly SshTarget[], ofAccounts: AccountHosts): SshHosts {
  const listConfigured = async (accountId: string): Promise<readonly SshHost[]> => {
    if (targets.length === 0) return [];
    const name = await findValue<string>(pool, 'SELECT name FROM accounts WHERE id = $1', [accountId]);
    if (name === null) return [];
    return targets
      .filter(({ accounts }) => accounts.includes(EVERYBODY) || accounts.includes(name))
      .map(({ address, privateKey, accounts: _, ...host }) => ({
        ...host,
        revision: '',
        managedBy: 'operator',
        prepare: async () => ({ address, privateKey }),
      }));
  };
  return {
    ofAccounts,
    listForAccount: async (accountId) => {
      const configured = await listConfigured(accountId);
      const own = await ofAccounts.list(accountId);
      return [...configured, ...own.filter(({ id }) => !configured.some((host) => host.id === id))];
    },
  };
}
