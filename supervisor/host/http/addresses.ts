/** Which addresses a plugin's request may be sent to. Pure: names are resolved elsewhere, and every answer is asked about here. */
import ipaddr from 'ipaddr.js';

/**
 * Whether an address is one of the public internet. Everything with a special meaning is not: private, loopback, link-local,
 * carrier-grade NAT, multicast, reserved, and every IPv6 form that carries an IPv4 address inside (mapped, 6to4, NAT64, Teredo).
 *
 * @param address as a resolver answers; text that is no address in the usual notation counts as not public
 */
export function isPublicAddress(address: string): boolean {
  // A zone (`fe80::1%eth0`) names an interface of this machine; octal, hex and short IPv4 forms are never a resolver's answer.
  if (address.includes('%')) return false;
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return ipaddr.IPv4.parse(address).range() === 'unicast';
  if (!ipaddr.IPv6.isValid(address)) return false;
  const parsed = ipaddr.IPv6.parse(address);
  // Only 2000::/3 is given out as global unicast; the rest, the IPv4-compatible `::a.b.c.d` among it, has no range of its own.
  return parsed.range() === 'unicast' && parsed.match(GLOBAL_UNICAST, GLOBAL_UNICAST_BITS);
}

const GLOBAL_UNICAST = ipaddr.IPv6.parse('2000::');
const GLOBAL_UNICAST_BITS = 3;
