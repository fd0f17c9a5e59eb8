/** The keys and values of `host.storage`, as they are stored. */
import type { StorageExcess } from '../../db/installations/storage-limits.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { hostCalls } from '../../sdk/contract/protocol.ts';
import { measureResult } from './call-checks.ts';
import { HostError, requireStorable } from './host-call.ts';

/** A larger value could not be read again. */
const VALUE_BYTES = hostCalls['storage.get'].maxBytes;

const LIST_BYTES = hostCalls['storage.list'].maxBytes;

export const requireKey = (key: string): string => requireStorable(key, 'a key');

/** @throws HostError for a value that is too large */
export function encodeStored(value: unknown): string {
  const json = JSON.stringify(value);
  if (Buffer.byteLength(json) <= VALUE_BYTES) return json;
  throw new HostError(`a value has at most ${VALUE_BYTES} bytes of JSON; divide it over several keys`);
}

/** @param maxBytes of the installation's keys and values @throws HostError when the storage is full */
export function requireSpace(excess: StorageExcess, maxBytes: number): void {
  if (excess === null) return;
  const most = excess === 'bytes' ? `${maxBytes} bytes of keys and values` : `${limits.storageKeys} keys`;
  throw new HostError(`storage is full: an installation keeps ${most}`);
}

/** @param keys null: there are more than `limits.storageListKeys` @throws HostError then, and when they do not fit into a result */
export function requireListable(keys: string[] | null): string[] {
  if (!keys) throw new HostError(`there are more than ${limits.storageListKeys} keys: list a longer prefix`);
  if (measureResult(keys) <= LIST_BYTES) return keys;
  throw new HostError(`the keys have more than ${LIST_BYTES} bytes together: list a longer prefix`);
}
