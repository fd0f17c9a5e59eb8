/** Checks an address against a plugin's grants, for requests and for redirects. Pure. */
import { isIP } from 'node:net';
import { HostError } from '../host-call.ts';

const PREFIX = 'host.http:';

/**
 * Parses the address of a request.
 *
 * @param address of the request, or the absolute target of a redirect
 * @param granted the installation's current capabilities
 * @throws HostError when it is not an http(s) address, contains a user name, or names a host that is not granted
 */
export function readTarget(address: string, granted: readonly string[]): URL {
  if (!URL.canParse(address)) throw new HostError('the address is not a URL');
  // The URL parser lower-cases names, converts them to punycode, and normalizes every notation of IPv4.
  const url = new URL(address);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new HostError(`only http: and https: addresses can be fetched, not ${url.protocol}`);
  if (url.username !== '' || url.password !== '')
    throw new HostError('the address contains a user name or password; send an authorization header instead');
  const host = parseName(url);
  url.hostname = host;
  // An IP address needs no DNS look-up, so it would bypass the check for public addresses.
  if (isIP(host.replace(/^\[|\]$/g, '')) !== 0)
    throw new HostError('the address contains an IP address; use a host name, because hosts are granted by name');
  if (!granted.some((capability) => capability.startsWith(PREFIX) && covers(capability.slice(PREFIX.length), host)))
    throw new HostError(`${host} is not a granted host; declare ${PREFIX}${host} in the readme and publish again`);
  return url;
}

/** Removes the final dot of a fully qualified name: `example.com.` is `example.com`. */
const parseName = (url: URL): string => url.hostname.replace(/\.$/, '');

/** `*.example.com` matches names below example.com at any depth, but not example.com. */
function covers(pattern: string, host: string): boolean {
  return pattern.startsWith('*.')
    ? host.length > pattern.length - 1 && host.endsWith(pattern.slice(1))
    : host === pattern;
}
