/** An account's own SSH hosts: added, tested, changed and removed by the account. */
import { isIP } from 'node:net';
import { z } from 'zod';
import { recordAccountAction } from '../../db/accounts/account-actions.ts';
import {
  deleteSshHost,
  findSshHost,
  insertSshHost,
  type SshHostRow,
  type SshLogin,
  saveSshTest,
  updateSshHost,
} from '../../db/accounts/ssh-hosts.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import type { Queryable } from '../../db/postgres/rows.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import { storedText } from '../../service/http/schemas.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { TimeLimitError } from '../../service/timing/bounded-worker.ts';
import { HostLimitError } from '../host/host-call.ts';
import type { SshTest } from '../host/ssh/connections.ts';
import { hostKey, SSH_PORT } from '../host/ssh/hosts.ts';
import type { SessionServices } from '../sessions/session-services.ts';

/** Maximum number of an account's own SSH hosts. */
const HOSTS_MAX = 100;
const NAME_MAX_CHARS = 200;
const ADDRESS_MAX_CHARS = 255;
const USER_MAX_CHARS = 255;
const HOST_KEYS_MAX = 8;
/** The PEM text of an RSA key of 16,384 bits has 13,000 characters. */
const PRIVATE_KEY_MAX_CHARS = 16_384;
const PASSWORD_MAX_CHARS = 1_024;
/** Time limit of the decryption. A key of `ssh-keygen` takes less than a second on an idle machine. Milliseconds. */
const OPEN_KEY_MS = 20 * SECOND;
const PORT_MAX = 65_535;
const IPV6 = 6;

const oneLine = (maxChars: number) =>
  storedText(maxChars)
    .min(1)
    .regex(/^\S(.*\S)?$/, 'must be one line');
const address = z
  .string()
  .max(ADDRESS_MAX_CHARS)
  .transform((text) => text.toLowerCase().replace(/\.$/, ''))
  .refine(
    (text) => isIP(text) !== 0 || /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9])?$/.test(text),
    'must be a host name or an IP address',
  );

export const sshHostId = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._-]{0,63}$/,
    'must be 1-64 lower-case letters, digits, dots, - and _, and begin with a letter or digit',
  );
export const sshHostFields = {
  name: oneLine(NAME_MAX_CHARS).describe('For people.'),
  address: address.describe('A host name or an IP address. It must be public, unless the operator allows it.'),
  port: z.int().min(1).max(PORT_MAX).default(SSH_PORT),
  user: oneLine(USER_MAX_CHARS),
  hostKeys: z
    .array(hostKey)
    .max(HOST_KEYS_MAX)
    .default([])
    .describe('Accepted keys of the host, as `ssh-keygen -lf` prints them. Without any, nothing is sent to it.'),
};
/** Write-only. */
export const sshLoginFields = {
  privateKey: storedText(PRIVATE_KEY_MAX_CHARS)
    .optional()
    .describe('In the format of OpenSSH or PEM. Never shown again.'),
  passphrase: storedText(PASSWORD_MAX_CHARS).optional().describe('Of the private key.'),
  password: storedText(PASSWORD_MAX_CHARS).min(1).optional().describe('Instead of a private key. Never shown again.'),
};
type HostFields = z.output<z.ZodObject<typeof sshHostFields>>;
type HostChanges = { readonly [Field in keyof HostFields]?: HostFields[Field] | undefined };
type LoginFields = z.output<z.ZodObject<typeof sshLoginFields>>;

export type OwnSshHost = Omit<SshHostRow, 'revision' | 'position'>;
export const describeSshHost = ({ revision: _, position: _position, ...host }: SshHostRow): OwnSshHost => host;

/** @throws Problem `bad_request`, `id_reused`, `too_many`, `quota_exceeded` */
export async function addSshHost(
  services: SessionServices,
  caller: Caller,
  { id: hostId, privateKey, passphrase, password, ...fields }: HostFields & LoginFields & { readonly id: string },
): Promise<OwnSshHost> {
  const { hosts } = services.ssh;
  requireReachable(services, fields);
  const login = await readLogin(services, caller.id, { privateKey, passphrase, password });
  if (login === undefined) throw faultOf('privateKey', 'Send the private key or the password with which to log in.');
  const requireNew = async (): Promise<void> => {
    if ((await hosts.listForAccount(caller.id)).some(({ id }) => id === hostId))
      throw new Problem('id_reused', `There is an SSH host “${hostId}” already. Change it, or choose another id.`);
  };
  await requireNew();
  return inTransaction(services.pool, async (tx) => {
    const key = { accountId: caller.id, hostId };
    const made = await insertSshHost(tx, hosts.ofAccounts.keys, key, { ...fields, login }, HOSTS_MAX);
    if (made === null) {
      // Another request may have just added it.
      await requireNew();
      throw new Problem('too_many', `The account has ${HOSTS_MAX} SSH hosts. Remove one.`);
    }
    await record(tx, caller, 'ssh-host.add', made);
    return describeSshHost(made);
  });
}

/** @throws Problem `bad_request`, `not_found` */
export async function changeSshHost(
  services: SessionServices,
  caller: Caller,
  hostId: string,
  { privateKey, passphrase, password, ...changes }: HostChanges & LoginFields,
): Promise<OwnSshHost> {
  await requireSshHost(services, caller, hostId);
  const login = await readLogin(services, caller.id, { privateKey, passphrase, password });
  let changed: SshHostRow | null = null;
  // Null: another request changed the host between the read and the write.
  while (changed === null) changed = await applyChanges(services, caller, hostId, changes, login);
  return describeSshHost(changed);
}

async function applyChanges(
  services: SessionServices,
  caller: Caller,
  hostId: string,
  changes: HostChanges,
  login: SshLogin | undefined,
): Promise<SshHostRow | null> {
  const known = await requireSshHost(services, caller, hostId);
  const fields: HostFields = {
    name: changes.name ?? known.name,
    address: changes.address ?? known.address,
    port: changes.port ?? known.port,
    user: changes.user ?? known.user,
    hostKeys: changes.hostKeys ?? known.hostKeys,
  };
  requireReachable(services, fields);
  if (login === undefined && leadsElsewhere(known, fields))
    throw faultOf(
      'password',
      'Send the password again to change the address, port, user or keys of this host: it would otherwise be sent to another host.',
    );
  return inTransaction(services.pool, async (tx) => {
    const key = { accountId: caller.id, hostId, revision: known.revision };
    const changed = await updateSshHost(tx, services.ssh.hosts.ofAccounts.keys, key, { ...fields, login });
    if (changed) await record(tx, caller, 'ssh-host.change', changed);
    return changed;
  });
}

/** @throws Problem `not_found` */
export async function removeSshHost(services: SessionServices, caller: Caller, hostId: string): Promise<void> {
  const known = await requireSshHost(services, caller, hostId);
  await inTransaction(services.pool, async (tx) => {
    if (await deleteSshHost(tx, { accountId: caller.id, hostId })) await record(tx, caller, 'ssh-host.remove', known);
  });
}

/** Connects and logs in, and stores the result. @throws Problem `not_found`, `rate_limited` */
export async function testSshHost(
  services: SessionServices,
  caller: Caller,
  hostId: string,
  signal: AbortSignal,
): Promise<SshTest> {
  const known = await requireSshHost(services, caller, hostId);
  const { hosts, connections } = services.ssh;
  const owner = { accountId: caller.id, connectionOwner: `tests of ${caller.id}` };
  const tested = await connections
    .test(owner, hosts.ofAccounts.describe(caller.id, known), signal)
    .catch((error: unknown) => {
      // The text of any other error is internal.
      if (!(error instanceof HostLimitError)) throw error;
      const { message, retryAfter } = error;
      throw new Problem('rate_limited', `The host was not tested: ${message}.`, { retryAfter });
    });
  await saveSshTest(services.pool, { accountId: caller.id, hostId, revision: known.revision }, tested.fault);
  return tested;
}

/** @throws Problem `not_found` */
export async function requireSshHost(services: SessionServices, caller: Caller, hostId: string): Promise<SshHostRow> {
  const known = await findSshHost(services.pool, { accountId: caller.id, hostId });
  if (!known) throw unknownHost();
  return known;
}

const unknownHost = () => new Problem('not_found', 'You have added no SSH host with this id.');

/** Whether a change could send the stored password to another host. A private key is never sent to a host. */
function leadsElsewhere(known: SshHostRow, { address: to, port, user, hostKeys }: Omit<HostFields, 'name'>): boolean {
  if (known.login === 'key') return false;
  // A host without pinned keys takes any key as its first one, so the removal of all keys counts as a change of keys.
  const hasOtherKeys = hostKeys.length === 0 || hostKeys.some((key) => !known.hostKeys.includes(key));
  const isRepinned = known.hostKeys.length > 0 && hasOtherKeys;
  return to !== known.address || port !== known.port || user !== known.user || isRepinned;
}

function requireReachable({ ssh }: SessionServices, { address: to, port }: Pick<HostFields, 'address' | 'port'>): void {
  if ((isIP(to) === 0 && to !== 'localhost') || !ssh.hosts.ofAccounts.isRefused(to, port)) return;
  // SSH_ALLOW_PRIVATE takes `host:port`, so it cannot contain an IPv6 address.
  const allowed =
    isIP(to) === IPV6
      ? `a host name that leads there with SSH_ALLOW_PRIVATE=<name>`
      : `it with SSH_ALLOW_PRIVATE=${to}`;
  throw faultOf('address', `${to} is not a public address. The operator may allow ${allowed}:${port}.`);
}

/** Reads the login of a request and decrypts its key. Undefined: it has none. @throws Problem `bad_request`, without the key */
async function readLogin(
  { ssh }: SessionServices,
  accountId: string,
  { privateKey, passphrase, password }: LoginFields,
): Promise<SshLogin | undefined> {
  if (privateKey === undefined) {
    if (passphrase !== undefined) throw faultOf('passphrase', 'Send the private key with its passphrase.');
    return password === undefined ? undefined : { password };
  }
  if (password !== undefined) throw faultOf('password', 'Send a private key or a password, not both.');
  const opened = await ssh.hosts.ofAccounts.privateKeys
    .run(accountId, { text: privateKey, passphrase }, OPEN_KEY_MS)
    .catch(toSlowKeyProblem);
  if (opened === null)
    throw faultOf(
      'privateKey',
      'This is not a private key in OpenSSH or PEM format of the type Ed25519, ECDSA or RSA, or its passphrase is missing or wrong.',
    );
  return { privateKey: opened };
}

function toSlowKeyProblem(error: unknown): never {
  if (!(error instanceof TimeLimitError)) throw error;
  throw faultOf(
    'privateKey',
    'The private key takes too long to decrypt. Write it again with fewer rounds: ssh-keygen -p -a 16 -f <file>.',
  );
}

const faultOf = (field: string, message: string) =>
  new Problem('bad_request', message, { errors: [{ field, message }] });

const countKeys = ({ hostKeys: { length } }: SshHostRow): string => `${length} pinned ${length === 1 ? 'key' : 'keys'}`;

const record = (tx: Queryable, { id: accountId, tokenId }: Caller, action: string, host: SshHostRow): Promise<void> =>
  recordAccountAction(tx, {
    accountId,
    action,
    subject: host.id,
    detail: `${host.user}@${host.address}:${host.port}, ${countKeys(host)}`,
    tokenId,
    actor: null,
  });
