/** Decides which webhook requests are handshakes. The test kit for plugins uses it, too. */
import type { Address } from '../../db/channels/channels.ts';
import type { NewDelivery } from '../../db/channels/deliveries.ts';
import { KIB } from '../../sdk/contract/limits.ts';

/**
 * A larger body is not a handshake: vendors send a challenge of some hundred bytes. Large bodies are stored one at a time, so none
 * may wait for a plugin.
 */
export const HANDSHAKE_MAX_BYTES = 64 * KIB;

/** No JSON writer escapes these characters, so a body without the text need not be parsed. Some write `/` as `\/`, or `ü` as `\u00fc`. */
const NEVER_ESCAPED = /^[\w.:-]+$/;

/** Whether the plugin must answer the request: every GET and OPTIONS, and a POST with the header or `type` that it declares. */
export function isHandshake(
  { handshake }: Pick<Address, 'handshake'>,
  { method, headers, body }: Pick<NewDelivery, 'method' | 'headers' | 'body'>,
): boolean {
  if (handshake === null || body.byteLength > HANDSHAKE_MAX_BYTES) return false;
  if (method === 'GET' || method === 'OPTIONS') return true;
  if (method !== 'POST') return false;
  const { header, jsonType } = handshake;
  if (header !== undefined && headers.some(([name]) => name.toLowerCase() === header.toLowerCase())) return true;
  if (jsonType === undefined || (NEVER_ESCAPED.test(jsonType) && !body.includes(jsonType))) return false;
  try {
    const parsed: unknown = JSON.parse(body.toString('utf8'));
    return typeof parsed === 'object' && parsed !== null && (parsed as { type?: unknown }).type === jsonType;
  } catch {
    return false;
  }
}
