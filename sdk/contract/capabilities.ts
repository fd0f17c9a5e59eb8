/** Derivations from the protocol rows about what a plugin may do: capability names, grants and catalog sentences. */
import {
  capabilities,
  events,
  type HookName,
  hooks,
  hostCalls,
  httpReach,
  type Registrations,
  surfaces,
} from './protocol.ts';
import type { HostRow, Reach } from './rows.ts';

/** `example.com` or `*.example.com`: labels of letters, digits and `-`, at least two of them. */
const HOST_PATTERN = /^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/;

const own = <T extends object>(table: T, key: string): T[keyof T] | undefined =>
  Object.hasOwn(table, key) ? table[key as keyof T] : undefined;

/** Whether a frontmatter may declare this capability. */
export function isDeclarable(capability: string): boolean {
  if (capability.startsWith('host.http:')) return HOST_PATTERN.test(capability.slice('host.http:'.length));
  const { member, readOnly } = splitHostCapability(capability);
  const row = own(capabilities, member);
  return row !== undefined && (!readOnly || row.read !== null);
}

/** Every capability string a frontmatter may declare, but for the parametrised `host.http:<host>`. */
export const declarable: readonly string[] = Object.entries(capabilities).flatMap(([member, row]) =>
  row.read ? [`host.${member}`, `host.${member}:read`] : [`host.${member}`],
);

/** The capabilities that a plugin has by what it registers. `commands` from `commands/*.md` are passed beside. */
export function registeredCapabilities(found: Registrations, promptCommands: readonly string[] = []): string[] {
  const names = (prefix: string, keys: readonly string[]) => keys.map((key) => `${prefix}.${key}`);
  const channel = found.channel;
  return [
    ...found.hooks,
    ...names('events', found.events),
    ...names('tools', Object.keys(found.tools)),
    ...names('commands', [...new Set([...Object.keys(found.commands), ...promptCommands])]),
    ...names('providers', Object.keys(found.providers)),
    ...(channel.receive || channel.send || channel.handshake ? ['channel'] : []),
  ].sort();
}

/** The catalog's sentence and risk for one capability string. */
export function reachOf(capability: string): Reach & { capability: string; sentence: string } {
  const reach = findReach(capability);
  return { ...reach, capability, sentence: reach.reach };
}

function findReach(capability: string): Reach {
  if (capability.startsWith('host.http:')) return named(httpReach, 'host', capability.slice('host.http:'.length));
  if (capability.startsWith('host.')) {
    const { member, readOnly } = splitHostCapability(capability);
    const row = own(capabilities, member);
    if (row) return readOnly && row.read ? row.read : row;
  }
  if (capability === 'channel') return surfaces['channel.receive'];
  const hook = own(hooks, capability as HookName);
  if (hook) return hook;
  const dot = capability.indexOf('.');
  const group = capability.slice(0, dot);
  const name = capability.slice(dot + 1);
  const event = group === 'events' ? own(events, name) : undefined;
  if (event) return event;
  const surface = own(surfaces, group);
  if (surface) return named(surface, 'name', name);
  return { reach: capability, risk: 'high' };
}

const named = (row: Reach, key: string, value: string): Reach => ({
  reach: row.reach.replace(`{${key}}`, value),
  risk: row.risk,
});

/**
 * The host calls that a set of capabilities grants, by their keys in `hostCalls`.
 *
 * @param granted capability strings an account has accepted
 */
export function grantedMembers(granted: readonly string[]): string[] {
  const rows: [string, HostRow][] = Object.entries(hostCalls);
  return rows.filter(([, row]) => isGranted(row, granted)).map(([name]) => name);
}

/** Whether one host call is covered by the granted capabilities. The host of `http.fetch` is checked by its handler. */
export function isGranted(row: HostRow, granted: readonly string[]): boolean {
  if (row.capability === null) return true;
  if (row.capability === 'http') return granted.some((capability) => capability.startsWith('host.http:'));
  const full = `host.${row.capability}`;
  return granted.includes(full) || (row.readable && granted.includes(`${full}:read`));
}

/**
 * The capabilities of `wanted` that `granted` does not cover. A full grant covers its `:read` form and `*.host` covers
 * the hosts below it.
 */
export function uncovered(wanted: readonly string[], granted: readonly string[]): string[] {
  return wanted.filter((capability) => !granted.some((grant) => covers(grant, capability)));
}

function covers(grant: string, capability: string): boolean {
  if (grant === capability || `${grant}:read` === capability) return true;
  if (!grant.startsWith('host.http:*.') || !capability.startsWith('host.http:')) return false;
  const suffix = grant.slice('host.http:*'.length);
  return capability.endsWith(suffix);
}

function splitHostCapability(capability: string): { member: string; readOnly: boolean } {
  if (!capability.startsWith('host.')) return { member: '', readOnly: false };
  const rest = capability.slice('host.'.length);
  return rest.endsWith(':read')
    ? { member: rest.slice(0, -':read'.length), readOnly: true }
    : { member: rest, readOnly: false };
}
