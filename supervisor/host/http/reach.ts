/** Whether an address that a plugin gives lies within its grants. Pure; asked again for every redirect. */
import { isIP } from 'node:net';
import { HostError } from '../host-call.ts';

const PREFIX = 'host.http:';

/**
 * Reads the address of a request.
 *
 * @param address the first, or the target of a redirect already made absolute
 * @param granted the installation's capabilities as they stand now
 * @throws HostError when it is no http(s) address, carries a user name, or names a host that was not granted
 */
export function readTarget(address: string, granted: readonly string[]): URL {
  if (!URL.canParse(address)) throw new HostError('the address is not a URL');
  // The URL standard lower-cases names, turns them to punycode and IPv4 in any notation to four decimals.
  const url = new URL(address);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new HostError(`only http: and https: addresses can be fetched, not ${url.protocol}`);
  if (url.username !== '' || url.password !== '')
    throw new HostError('the address has a user name or password in it; send an authorization header instead');
  const host = nameOf(url);
  url.hostname = host;
  // A connection to an address asks for no name, and would pass by the check of addresses.
  if (isIP(host.replace(/^\[|\]$/g, '')) !== 0)
    throw new HostError('the address names no host but an IP address; hosts are granted by name');
  if (!granted.some((capability) => capability.startsWith(PREFIX) && covers(capability.slice(PREFIX.length), host)))
    throw new HostError(`${host} is not a granted host; declare ${PREFIX}${host} in the readme and publish again`);
  return url;
}

/** The host's name without the dot that ends a full name: `example.com.` is `example.com`. */
const nameOf = (url: URL): string => url.hostname.replace(/\.$/, '');

/** `*.example.com` covers names below example.com, at any depth, and not example.com itself. */
function covers(pattern: string, host: string): boolean {
  return pattern.startsWith('*.')
    ? host.length > pattern.length - 1 && host.endsWith(pattern.slice(1))
    : host === pattern;
}
