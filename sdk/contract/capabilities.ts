/** Derives from the protocol rows what a capability allows: valid names, granted host calls and catalog sentences. */
import { getOwn } from './get-own.ts';
import {
  capabilities,
  events,
  type HookName,
  hooks,
  hostCalls,
  httpReach,
  type Registrations,
  secretReach,
  surfaces,
} from './protocol.ts';
import type { HostRow, Reach } from './rows.ts';

const HTTP_PREFIX = 'host.http:';
const READ_FORM = ':read';
/** `example.com` or `*.example.com`: at least two labels of letters, digits and `-`. */
const HOST_PATTERN = /^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Secrets of whose handles an installation's grants remember the uses: those of the version that runs, at most 64, and as many of
 * versions before it. An author can declare any number of secrets over time.
 */
export const REMEMBERED_SECRETS_MAX = 128;
/** `secrets.<name>`, or `secrets.<name>:<use>` where the plugin gets a handle. */
const SECRET = /^secrets\.([\w-]+)(?::(.+))?$/;
const HTTP_USE = 'http:';

/** Returns why frontmatter may not declare this capability, as a sentence; null: it may. */
export function findCapabilityFault(capability: string): string | null {
  const fault = `“${capability}” is not a capability`;
  if (capability.startsWith(HTTP_PREFIX)) {
    const hostFault = findHostFault(capability.slice(HTTP_PREFIX.length));
    return hostFault && `${fault}: ${hostFault}. Write it like host.http:api.example.com or host.http:*.example.com`;
  }
  const { member } = splitHostCapability(capability);
  if (Object.hasOwn(capabilities, member)) return null;
  if (FREE_MEMBERS.has(member)) return `${fault}: host.${member} needs none. Leave it out`;
  if (member === 'http' || /^(?:host\.)?(?:fetch|http\b)/.test(capability))
    return `${fault}: declare each host that the code asks, such as host.http:api.example.com`;
  if (SECRET.test(capability)) return `${fault}: a secret is declared in secrets. Leave it out`;
  if (REGISTERED_GROUPS.has(capability.split('.')[0] ?? ''))
    return `${fault} to declare: registering it in the code declares it. Leave it out`;
  return `${fault}. Examples: host.llm, host.workspace:read, host.http:api.example.com`;
}

/** The members of `host` that every plugin has. */
const FREE_MEMBERS: ReadonlySet<string> = new Set(['assets', 'log', 'settings', 'secrets']);
/** What a plugin registers becomes a capability by itself. */
const REGISTERED_GROUPS: ReadonlySet<string> = new Set(
  [...Object.keys(hooks), ...Object.keys(surfaces), 'events'].map((name) => name.split('.')[0] ?? name),
);

/** The rules of host names, in the order in which they are checked: each a fault and what is wrong with the text. */
const HOST_FAULTS: readonly (readonly [RegExp, string])[] = [
  [/^$/, 'the host is missing'],
  [/:\/\//, 'leave out the scheme; only the name of the host is declared'],
  [/[/?#]/, 'leave out the path; only the name of the host is declared'],
  [/^\d+(?:\.\d+){3}(?::\d+)?$|:.*:/s, 'an IP address cannot be declared, only the name of a host'],
  [/:/, 'leave out the port; only the name of the host is declared'],
  [/^\*$|^.+\*|\*(?!\.)/, '“*” stands only in front of a name, for all hosts below it'],
  [/[^\x21-\x7e]/, 'write the name in ASCII, with xn-- for other letters'],
  [/[A-Z]/, 'write the name in lower case'],
  [/^(?:\*\.)?[^.]*$/, 'the name needs two parts with a dot between them; hosts of the own network cannot be reached'],
];

/** Returns what is wrong with a host name, as a clause; null: it is valid. */
export function findHostFault(host: string): string | null {
  if (HOST_PATTERN.test(host)) return null;
  const [, fault = 'each part of the name has 1-63 letters, digits or “-”, and the last one starts with a letter'] =
    HOST_FAULTS.find(([pattern]) => pattern.test(host)) ?? [];
  return fault;
}

/** Returns why frontmatter may not name this use of a secret, as a sentence; null: it may. */
export function findSecretUseFault(use: string): string | null {
  if (use === 'webhooks') return null;
  const isOfOneHost = use.startsWith(HTTP_USE) && !use.startsWith(`${HTTP_USE}*`);
  const fault = isOfOneHost ? findHostFault(use.slice(HTTP_USE.length)) : '';
  if (fault === null) return null;
  const reason = fault === '' ? '' : `: ${fault}`;
  return `“${use}” is not a use${reason}. Write webhooks, or http: and one exact host, such as http:api.example.com`;
}

/**
 * The capabilities that follow from what a plugin registers.
 *
 * @param promptCommands names of the `commands/*.md` files
 */
export function listRegisteredCapabilities(found: Registrations, promptCommands: readonly string[] = []): string[] {
  const withPrefix = (prefix: string, names: readonly string[]) => names.map((name) => `${prefix}.${name}`);
  const { channel } = found;
  return [
    ...found.hooks,
    ...withPrefix('events', found.events),
    ...withPrefix('tools', Object.keys(found.tools)),
    ...withPrefix('commands', [...new Set([...Object.keys(found.commands), ...promptCommands])]),
    ...withPrefix('providers', Object.keys(found.providers)),
    ...(channel.receive || channel.send || channel.handshake ? ['channel'] : []),
  ].sort();
}

/** The catalog's sentence and risk for one capability. */
export function describeCapability(capability: string): Reach & { capability: string; sentence: string } {
  const reach = findReach(capability);
  return { ...reach, capability, sentence: reach.reach };
}

/** Whether the capability is a hook that can cancel its operation: a reason to require the plugin. */
export const canCancel = (capability: string): boolean => getOwn(hooks, capability as HookName)?.cancellable ?? false;

function findReach(capability: string): Reach {
  if (capability.startsWith(HTTP_PREFIX)) return fillIn(httpReach, 'host', capability.slice(HTTP_PREFIX.length));
  if (capability.startsWith('host.')) {
    const { member, readOnly } = splitHostCapability(capability);
    const row = getOwn(capabilities, member);
    if (row) return readOnly ? row.read : row;
  }
  const [, secret = '', use] = SECRET.exec(capability) ?? [];
  if (secret !== '') return findSecretReach(secret, use);
  if (capability === 'channel') return surfaces['channel.receive'];
  const hook = getOwn(hooks, capability as HookName);
  if (hook) return hook;
  const dot = capability.indexOf('.');
  const group = capability.slice(0, dot);
  const name = capability.slice(dot + 1);
  const event = group === 'events' ? getOwn(events, name) : undefined;
  if (event) return event;
  const surface = getOwn(surfaces, group);
  if (surface) return fillIn(surface, 'name', name);
  return { reach: capability, risk: 'high' };
}

function findSecretReach(name: string, use: string | undefined): Reach {
  if (use === undefined) return fillIn(secretReach.read, 'name', name);
  if (!use.startsWith(HTTP_USE)) return fillIn(secretReach.webhooks, 'name', name);
  return fillIn(fillIn(secretReach.http, 'name', name), 'host', use.slice(HTTP_USE.length));
}

const fillIn = (row: Reach, key: string, value: string): Reach => ({
  reach: row.reach.replace(`{${key}}`, value),
  risk: row.risk,
});

/**
 * The host calls that a set of capabilities grants, by their keys in `hostCalls`.
 *
 * @param granted capabilities that an account has accepted
 */
export function listGrantedCalls(granted: readonly string[]): string[] {
  const rows: [string, HostRow][] = Object.entries(hostCalls);
  return rows.filter(([, row]) => isGranted(row, granted)).map(([name]) => name);
}

/** Whether the granted capabilities cover one host call. The handler of `http.fetch` checks the host name itself. */
export function isGranted(row: HostRow, granted: readonly string[]): boolean {
  if (row.capability === null) return true;
  if (row.capability === 'http') return granted.some((capability) => capability.startsWith(HTTP_PREFIX));
  const full = `host.${row.capability}`;
  return granted.includes(full) || (row.readable && granted.includes(`${full}:read`));
}

/**
 * The capabilities of `wanted` that `granted` does not cover. A full grant covers its `:read` form, `*.example.com` covers
 * the hosts below it, and a secret may be used in fewer ways, but not in others. A secret of which `granted` has no handle counts
 * as covered, unless `granted` has its maximum of handles: then earlier ones may be forgotten.
 *
 * @param secrets those whose values the user has given: what they allow counts, also where versions in between did not
 * declare them
 */
export function findMissingCapabilities(
  wanted: readonly string[],
  granted: readonly string[],
  secrets: GivenSecrets = { names: [], allowed: [] },
): string[] {
  const grants = new GrantSet(granted);
  const allowed = new GrantSet(secrets.allowed);
  const given = new Set(secrets.names);
  const withHandle = listSecretsWithHandle(granted);
  // Of the handles that are not remembered any more, the user is asked as of those that are.
  const isFull = withHandle.size >= REMEMBERED_SECRETS_MAX;
  return wanted.filter((capability) => {
    const [, name] = SECRET.exec(capability) ?? [];
    if (name !== undefined && given.has(name)) return !allowed.covers(capability);
    // The user gives the value of a new secret after seeing how it is used.
    const isNew = name !== undefined && !isFull && !withHandle.has(name);
    return !isNew && !grants.covers(capability);
  });
}

function listSecretsWithHandle(granted: readonly string[]): Set<string> {
  const names = new Set<string>();
  for (const grant of granted) {
    const [, name, use] = SECRET.exec(grant) ?? [];
    if (name !== undefined && use !== undefined) names.add(name);
  }
  return names;
}

/** The secrets of an installation that have a value. */
export interface GivenSecrets {
  readonly names: readonly string[];
  /** The capabilities about them that the user allowed. */
  readonly allowed: readonly string[];
}

/**
 * How a plugin may use the value of a secret: not further than its version declares and its user allowed.
 *
 * @param declared the uses of its handle; null: the version reads the value
 * @param allowed capabilities about secrets; null: all that is declared
 * @returns null: it may read the value
 */
export function limitSecretUses(
  name: string,
  declared: readonly string[] | null,
  allowed: readonly string[] | null,
): readonly string[] | null {
  if (allowed === null || allowed.includes(`secrets.${name}`)) return declared;
  const prefix = `secrets.${name}:`;
  const uses = allowed.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
  return intersectUses(declared, uses);
}

/** The uses of a secret that both allow. Null allows all of them, and to read the value. */
export function intersectUses(
  one: readonly string[] | null,
  other: readonly string[] | null,
): readonly string[] | null {
  if (one === null || other === null) return one ?? other;
  return one.filter((use) => other.includes(use));
}

/** The capabilities that both sets cover, each in its narrower form. */
export function intersectCapabilities(one: readonly string[], other: readonly string[]): string[] {
  const [ofOne, ofOther] = [new GrantSet(one), new GrantSet(other)];
  return [
    ...new Set([
      ...one.filter((capability) => ofOther.covers(capability)),
      ...other.filter((capability) => ofOne.covers(capability)),
    ]),
  ];
}

/**
 * Granted capabilities. Looks up the few grants that can cover a capability, because an author chooses the size of both lists:
 * comparing each pair took 5.7 s with 6,145 capabilities.
 */
export class GrantSet {
  readonly #granted: ReadonlySet<string>;

  constructor(granted: readonly string[]) {
    this.#granted = new Set(granted);
  }

  covers(capability: string): boolean {
    const granted = this.#granted;
    if (granted.has(capability)) return true;
    if (capability.endsWith(READ_FORM) && granted.has(capability.slice(0, -READ_FORM.length))) return true;
    // A plugin that may read a value may get a handle instead.
    const [, secret] = SECRET.exec(capability) ?? [];
    if (secret !== undefined) return granted.has(`secrets.${secret}`);
    if (!capability.startsWith(HTTP_PREFIX)) return false;
    for (let dot = capability.indexOf('.', HTTP_PREFIX.length); dot >= 0; dot = capability.indexOf('.', dot + 1))
      if (granted.has(`${HTTP_PREFIX}*${capability.slice(dot)}`)) return true;
    return false;
  }
}

function splitHostCapability(capability: string): { member: string; readOnly: boolean } {
  if (!capability.startsWith('host.')) return { member: '', readOnly: false };
  const rest = capability.slice('host.'.length);
  return rest.endsWith(READ_FORM)
    ? { member: rest.slice(0, -READ_FORM.length), readOnly: true }
    : { member: rest, readOnly: false };
}
