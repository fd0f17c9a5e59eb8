/** The limits of `host.storage`, without a database: the kit for tests of plugins has them, too. */
import { limits } from '../../sdk/contract/limits.ts';

export interface StorageEntry {
  readonly key: string;
  /** JSON text. */
  readonly value: string;
}
/** What an installation stores before an entry is written. */
interface StorageUse {
  /** Of all other keys and their values. */
  readonly bytes: number;
  readonly keys: number;
  /** Whether the entry's key is not stored yet. */
  readonly isNew: boolean;
}
/** What an installation has too much of. Null: the entry may be written. */
export type StorageExcess = 'bytes' | 'keys' | null;

export const measureEntry = ({ key, value }: StorageEntry): number => Buffer.byteLength(key) + Buffer.byteLength(value);

/** @param maxBytes of all keys and values of the installation */
export function findStorageExcess(
  { bytes, keys, isNew }: StorageUse,
  entryBytes: number,
  maxBytes: number,
): StorageExcess {
  if (bytes + entryBytes > maxBytes) return 'bytes';
  return isNew && keys >= limits.storageKeys ? 'keys' : null;
}
