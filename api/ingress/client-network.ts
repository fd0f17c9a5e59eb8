/** Webhook requests bypass Fastify, so this file reads the client address. */
import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';
import { parseNetwork } from '../../service/http/rate-limits.ts';

/** @param trustedProxies addresses and networks of the proxies whose `X-Forwarded-For` is used */
export function createNetworkReader(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const trusted = trustedProxies.map(parseTrusted);
  const isTrusted = (address: string): boolean => {
    if (!ipaddr.isValid(address)) return false;
    const parsed = ipaddr.process(address);
    return trusted.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits));
  };
  return ({ socket, headers }) => {
    let address = socket.remoteAddress ?? '';
    if (trusted.length === 0) return parseNetwork(address);
    // Each proxy appends the address from which it got the request.
    const forwarded = String(headers['x-forwarded-for'] ?? '').split(',');
    for (let hop = forwarded.pop()?.trim(); hop && isTrusted(address); hop = forwarded.pop()?.trim()) address = hop;
    return parseNetwork(address);
  };
}

function parseTrusted(text: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  if (text.includes('/')) return ipaddr.parseCIDR(text);
  const address = ipaddr.process(text);
  return [address, address.toByteArray().length * 8];
}
