/** Resolves a host name once and checks every address, so that the connection cannot use another one. */
import { lookup, Resolver } from 'node:dns/promises';
import { addAbortListener } from 'node:events';
import { isIP, type LookupFunction } from 'node:net';
import { networkInterfaces } from 'node:os';
import { HostError } from '../host-call.ts';
import { isPublicAddress, normalizeAddress } from './addresses.ts';

/** Time limit of one DNS query, milliseconds, and number of attempts. */
const DNS_TIMEOUT_MS = 3_000;
const DNS_TRIES = 2;
/** Addresses of one name. Large services have 20; a DNS answer over TCP may hold 4,000, whose checks block the event loop for 35 ms. */
const ADDRESSES_MAX = 64;
/** The ports to which the fetch standard sends no request ("bad port"): a server there may take the request for its own protocol. */
const BAD_PORTS: ReadonlySet<number> = new Set([
  ...[0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109],
  ...[110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530],
  ...[531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190],
  ...[5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080],
]);

export interface Resolution {
  /** `host:port` of targets that may have private addresses, from the operator's settings. */
  readonly allowPrivate: ReadonlySet<string>;
  /** Addresses of this machine, asked for at each request. Default: those of its network interfaces now. */
  readonly listOwnAddresses?: () => readonly string[];
  /** DNS servers as `address` or `address:port`; empty: the system's. */
  readonly dnsServers: readonly string[];
}

/**
 * Resolves a target.
 *
 * @throws HostError when it has no address, or, without the operator's permission, one that is private or this machine's, or
 *   a port of another protocol
 */
export async function resolveTarget(url: URL, resolution: Resolution, signal: AbortSignal): Promise<readonly string[]> {
  const port = readPort(url);
  if (!isAllowedPrivate(url, resolution) && BAD_PORTS.has(Number(port)))
    throw new HostError(`port ${port} belongs to another protocol than HTTP; requests to it are not allowed`);
  return resolveHost({ host: url.hostname, port }, resolution, signal);
}

/**
 * Resolves a host, whatever the protocol.
 *
 * @throws HostError when it has no address or too many, or, without the operator's permission, one that is private or this machine's
 */
export async function resolveHost(
  { host, port }: { readonly host: string; readonly port: string },
  resolution: Resolution,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const isNamed = resolution.allowPrivate.has(`${host}:${port}`);
  const { found, fault } = isIP(host)
    ? { found: [host], fault: null }
    : await lookUp(host, resolution.dnsServers, signal);
  // The system's look-up, which reads the hosts file, only for targets that the operator allowed: it blocks a thread.
  const addresses = found.length === 0 && isNamed ? await askSystem(host) : found;
  if (addresses.length === 0 && fault !== null)
    throw new HostError(`the address of ${host} could not be looked up (${fault}); try again later`);
  if (addresses.length === 0) throw new HostError(`${host} has no address`);
  if (addresses.length > ADDRESSES_MAX)
    throw new HostError(`${host} has more than ${ADDRESSES_MAX} addresses; requests to it are not possible`);
  if (!isNamed && !addresses.every(isPublicAddress))
    throw new HostError(`${host} has an address that is not public; requests to it are not allowed`);
  // A public address of this machine leads to services that trust it, past the firewall in front of it.
  const own = new Set((resolution.listOwnAddresses ?? listInterfaceAddresses)().map(normalizeAddress));
  if (!isNamed && addresses.some((address) => own.has(normalizeAddress(address))))
    throw new HostError(`${host} has an address of the machine that runs Bulkhead; requests to it are not allowed`);
  return addresses;
}

/** The addresses of all network interfaces. They may change while the process runs. */
const listInterfaceAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));

/** Whether the operator allowed this target although its address may be private. */
export const isAllowedPrivate = (url: URL, { allowPrivate }: Pick<Resolution, 'allowPrivate'>): boolean =>
  allowPrivate.has(`${url.hostname}:${readPort(url)}`);

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };
const readPort = (url: URL): string => url.port || (DEFAULT_PORTS[url.protocol] ?? '');

/** A connection's look-up function that returns the given addresses. */
export const pinned = (addresses: readonly string[]): LookupFunction => {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, options, answer) => {
    if (options.all) answer(null, all);
    else answer(null, all[0]?.address ?? '', all[0]?.family);
  };
};

/** Codes of a look-up of a name that does not exist, or has no address. All others: the name server gave no answer. */
const NO_ADDRESS: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME']);

interface LookedUp {
  readonly found: readonly string[];
  /** The code of a look-up that failed; null: both were answered. */
  readonly fault: string | null;
}

async function lookUp(host: string, servers: readonly string[], signal: AbortSignal): Promise<LookedUp> {
  signal.throwIfAborted();
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES });
  if (servers.length > 0) resolver.setServers(servers);
  using _listening = addAbortListener(signal, () => resolver.cancel());
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  const codes = answers.flatMap((answer) => (answer.status === 'rejected' ? [String(answer.reason.code)] : []));
  return { found, fault: codes.find((code) => !NO_ADDRESS.has(code)) ?? null };
}

async function askSystem(host: string): Promise<string[]> {
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.map(({ address }) => address);
}
