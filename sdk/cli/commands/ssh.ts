/** `bulkhead ssh`: the account's own SSH hosts, on which its agents run commands. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { getOwn } from '../../contract/get-own.ts';
import type { OwnSshHost, Page, SshTest } from '../../session/api-types.ts';
import type { Command, ParsedArgs } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { askForSecret, askToConfirm } from '../terminal-prompts.ts';
import { toOneLine } from '../terminal-text.ts';

export const ssh: Command = {
  name: 'ssh',
  summary: 'List, add, test, pin, change and remove SSH hosts for your agents',
  args: [
    { name: '[action]', doc: 'list (default), add, test, pin, change or remove' },
    { name: '[id]', doc: 'id of the host, by which agents address it, such as web' },
  ],
  options: [
    { flags: '--address <host[:port]>', doc: 'a public host name or IP address' },
    { flags: '--user <user>', doc: 'the user to log in as' },
    { flags: '--name <name>', doc: 'for people; default: the id' },
    { flags: '--key <file>', doc: 'private key; a passphrase is read from BULKHEAD_SSH_PASSPHRASE, or asked for' },
    { flags: '--password', doc: 'log in with a password, read from BULKHEAD_SSH_PASSWORD, or asked for' },
    {
      flags: '--host-key <fingerprint>',
      doc: 'accepted key of the host, as ssh-keygen -lf prints it (repeatable)',
      repeatable: true,
    },
    { flags: '-y, --yes', doc: 'pin the key that the host shows, without asking' },
  ],
  examples: [
    'ssh add web --address web.example.com --user deploy --key ~/.ssh/agents',
    'ssh pin web',
    'ssh test web',
    'ssh remove web',
  ],
  async run(context, args) {
    const [action = 'list', id] = args.positional;
    const hosts = await openHosts(context);
    if (action === 'list') return listHosts(context, hosts);
    const perform = getOwn(actions, action);
    if (!perform) {
      const known = ['list', ...Object.keys(actions)].join(', ');
      throw new CommandError('usage', `“${toOneLine(action)}” is not an action. Known: ${known}.`);
    }
    if (id === undefined) throw new CommandError('usage', `Name the host: bulkhead ssh ${action} <id>.`);
    return perform({ context, args, hosts, id });
  },
};

interface Hosts {
  call<Answer>(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<Answer>;
}
interface Action {
  readonly context: Context;
  readonly args: ParsedArgs;
  readonly hosts: Hosts;
  readonly id: string;
}

const actions: Readonly<Record<string, (action: Action) => Promise<unknown>>> = {
  async add({ context, args, hosts, id }) {
    const fields = await readFields(context, args);
    const added = await hosts.call<OwnSshHost>('POST', '', { name: id, ...fields, id });
    context.output.printLine(describe(added));
    if (added.hostKeys.length === 0)
      context.output.printLine(`Nothing is sent to it before its key is pinned: bulkhead ssh pin ${id}`);
    return added;
  },
  async change({ context, args, hosts, id }) {
    const fields = await readFields(context, args);
    if (Object.keys(fields).length === 0)
      throw new CommandError('usage', 'Nothing to change. Pass what changes, such as `--address`.');
    const changed = await hosts.call<OwnSshHost>('PATCH', `/${encodeURIComponent(id)}`, fields);
    context.output.printLine(describe(changed));
    return changed;
  },
  async test({ context, hosts, id }) {
    const tested = await testHost(hosts, id);
    if (!tested.ok) throw new CommandError('failed', `${toOneLine(tested.fault ?? '')}.`);
    context.output.printLine(`${id} accepts the login. Its key: ${tested.hostKey}`);
    return tested;
  },
  async pin({ context, args, hosts, id }) {
    const given = args.list('hostKey');
    const hostKeys = given.length > 0 ? given : [await askForHostKey({ context, args, hosts, id })];
    const login = args.flag('password') ? { password: await readPassword(context) } : {};
    const pinned = await hosts.call<OwnSshHost>('PATCH', `/${encodeURIComponent(id)}`, { hostKeys, ...login });
    context.output.printLine(describe(pinned));
    return pinned;
  },
  async remove({ context, hosts, id }) {
    await hosts.call('DELETE', `/${encodeURIComponent(id)}`);
    context.output.printLine(`${id} is removed.`);
    return { removed: id };
  },
};

async function openHosts(context: Context): Promise<Hosts> {
  const transport = await context.getSessionTransport();
  return {
    call: (method, path, body) => transport.json({ method, path: `/ssh-hosts${path}`, body, signal: context.signal }),
  };
}

async function listHosts({ output }: Context, hosts: Hosts): Promise<readonly OwnSshHost[]> {
  const { items } = await hosts.call<Page<OwnSshHost>>('GET', '?limit=1000');
  for (const host of items) output.printLine(describe(host));
  if (items.length === 0) output.printLine('You have added no SSH host. See: bulkhead ssh --help');
  return items;
}

const testHost = (hosts: Hosts, id: string): Promise<SshTest> => hosts.call('POST', `/${encodeURIComponent(id)}/test`);

/** The key that the host shows, once the user has compared it. */
async function askForHostKey({ context, args, hosts, id }: Action): Promise<string> {
  const { hostKey, fault } = await testHost(hosts, id);
  if (hostKey === null) throw new CommandError('failed', `${toOneLine(fault ?? '')}.`);
  const question = `${id} shows the key ${hostKey}. Is it the one that ssh-keygen -lf prints on that host?`;
  await askToConfirm(context, args, question, 'The key was not pinned.');
  return hostKey;
}

/** @throws CommandError `usage` */
async function readFields(context: Context, args: ParsedArgs): Promise<Record<string, unknown>> {
  const fields: Record<string, unknown> = {};
  const address = args.text('address');
  if (address !== undefined) Object.assign(fields, parseAddress(address));
  for (const name of ['name', 'user']) if (args.text(name) !== undefined) fields[name] = args.text(name);
  if (args.list('hostKey').length > 0) fields.hostKeys = args.list('hostKey');
  if (args.flag('password')) fields.password = await readPassword(context);
  const path = args.text('key');
  if (path !== undefined) Object.assign(fields, await readKey(context, path));
  return fields;
}

/** `host`, `host:port`, an IPv6 address, or `[address]:port`. */
function parseAddress(text: string): { readonly address: string; readonly port?: number } {
  const parts = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(text);
  return parts ? { address: parts[1] ?? parts[2] ?? '', port: Number(parts[3]) } : { address: text };
}

/** Asks for the passphrase of a key that looks encrypted; the service tells whether it is right. */
async function readKey(context: Context, path: string): Promise<Record<string, string>> {
  const privateKey = await readFile(resolve(context.folder, path), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError('usage', `The private key ${path} cannot be read (${error.code}).`);
  });
  const known = context.env.BULKHEAD_SSH_PASSPHRASE;
  if (known !== undefined) return { privateKey, passphrase: known };
  if (!isEncrypted(privateKey)) return { privateKey };
  const noTerminal = 'There is no terminal to ask for the passphrase. Set BULKHEAD_SSH_PASSPHRASE.';
  return { privateKey, passphrase: await askForSecret(context, `Passphrase of ${path}`, noTerminal) };
}

/** An OpenSSH key names its cipher behind 15 bytes of magic and a length. */
function isEncrypted(privateKey: string): boolean {
  if (privateKey.includes('ENCRYPTED')) return true;
  const body = /BEGIN OPENSSH PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END/.exec(privateKey)?.[1];
  return body !== undefined && !Buffer.from(body, 'base64').subarray(19).toString('latin1').startsWith('none');
}

async function readPassword(context: Context): Promise<string> {
  const noTerminal = 'There is no terminal to ask for the password. Set BULKHEAD_SSH_PASSWORD.';
  return context.env.BULKHEAD_SSH_PASSWORD ?? (await askForSecret(context, 'Password', noTerminal));
}

function describe({ id, user, address, port, hostKeys, login, testedAt, testFault }: OwnSshHost): string {
  const key = hostKeys.length === 0 ? 'no pinned key' : `pinned ${hostKeys.join(' ')}`;
  const test = testedAt === null ? 'not tested' : (testFault ?? `login worked at ${testedAt}`);
  return toOneLine(`${id}  ${user}@${address}:${port}, ${login}, ${key}, ${test}`);
}
