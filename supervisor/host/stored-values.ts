/** The keys and values of `host.storage`, as they are stored. */
import { hostCalls } from '../../sdk/contract/protocol.ts';
import { HostError, requireStorable } from './host-call.ts';

/** A larger value could not be read again. */
const VALUE_BYTES = hostCalls['storage.get'].maxBytes;

export const requireKey = (key: string): string => requireStorable(key, 'a key');

/** @throws HostError for a value that is too large */
export function encodeStored(value: unknown): string {
  const json = JSON.stringify(value);
  if (Buffer.byteLength(json) <= VALUE_BYTES) return json;
  throw new HostError(`a value has at most ${VALUE_BYTES} bytes of JSON; divide it over several keys`);
}
