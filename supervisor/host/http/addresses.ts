/** Decides which addresses a plugin's request may connect to. Pure. */
import ipaddr from 'ipaddr.js';

/**
 * Azure's platform in each virtual machine: name server, health probes and the server of the machine's extensions. It lies in a public
 * range, but answers only from inside the machine.
 */
const AZURE_PLATFORM = '168.63.129.16';

/**
 * Whether an address is public. Not public: private, loopback, link-local, carrier-grade NAT, multicast and reserved
 * addresses, the platform's of a cloud machine, and every IPv6 form that contains an IPv4 address (mapped, 6to4, NAT64, Teredo).
 *
 * @param address as returned by a resolver; other text counts as not public
 */
export function isPublicAddress(address: string): boolean {
  // A zone (`fe80::1%eth0`) names an interface of this machine. Resolvers never return octal, hex or short IPv4 forms.
  if (address.includes('%') || address === AZURE_PLATFORM) return false;
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return ipaddr.IPv4.parse(address).range() === 'unicast';
  if (!ipaddr.IPv6.isValid(address)) return false;
  const parsed = ipaddr.IPv6.parse(address);
  // Only 2000::/3 is global unicast. Everything else, including the IPv4-compatible `::a.b.c.d`, is not public.
  return parsed.range() === 'unicast' && parsed.match(GLOBAL_UNICAST, GLOBAL_UNICAST_BITS);
}

/** One text for all notations of an address, without the zone of an interface. */
export function normalizeAddress(address: string): string {
  const [bare = ''] = address.split('%', 1);
  return ipaddr.isValid(bare) ? ipaddr.process(bare).toNormalizedString() : bare;
}

const GLOBAL_UNICAST = ipaddr.IPv6.parse('2000::');
const GLOBAL_UNICAST_BITS = 3;
