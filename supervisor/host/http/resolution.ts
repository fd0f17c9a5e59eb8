/** From a name to the addresses one request may connect to: asked once, all answers judged, and no further look. */
import { lookup, Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { HostError } from '../host-call.ts';
import { isPublicAddress } from './addresses.ts';

/** Wait for one DNS server, milliseconds, and how often it is asked. */
const DNS_TIMEOUT_MS = 3_000;
const DNS_TRIES = 2;

export interface Resolution {
  /** `host:port` of targets that may have private addresses, as the operator named them. */
  readonly allowPrivate: ReadonlySet<string>;
  /** DNS servers as `address` or `address:port`; empty: those of the machine. */
  readonly dnsServers: readonly string[];
}

/**
 * The addresses of a target.
 *
 * @throws HostError when it has none, or when any of them is not public and the operator did not name the target
 */
export async function resolveTarget(url: URL, resolution: Resolution, signal: AbortSignal): Promise<readonly string[]> {
  const host = url.hostname;
  const isNamed = resolution.allowPrivate.has(`${host}:${portOf(url)}`);
  const found = await ask(host, resolution.dnsServers, signal);
  // A hosts file counts only for what the operator named: the system's lookup holds a thread for as long as it takes.
  const addresses = found.length === 0 && isNamed ? await askSystem(host) : found;
  if (addresses.length === 0) throw new HostError(`${host} has no address`);
  if (!isNamed && !addresses.every(isPublicAddress))
    throw new HostError(`${host} has an address that is not public; such targets are refused`);
  return addresses;
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };
const portOf = (url: URL): string => url.port || (DEFAULT_PORTS[url.protocol] ?? '');

/** Answers a connection's lookup with addresses that are known already. */
export const pinned = (addresses: readonly string[]): LookupFunction => {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, options, answer) => {
    if (options.all) answer(null, all);
    else answer(null, all[0]?.address ?? '', all[0]?.family);
  };
};

async function ask(host: string, servers: readonly string[], signal: AbortSignal): Promise<string[]> {
  signal.throwIfAborted();
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES });
  if (servers.length > 0) resolver.setServers(servers);
  const cancel = () => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

async function askSystem(host: string): Promise<string[]> {
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.map(({ address }) => address);
}
