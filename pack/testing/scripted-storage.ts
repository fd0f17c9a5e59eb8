/** `host.storage` of an open plugin: keeps values while the plugin is open, with the limits and texts of the service. */
import { findStorageExcess, measureEntry } from '../../db/installations/storage-limits.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { encodeStored, requireKey, requireListable, requireSpace } from '../../supervisor/host/stored-values.ts';

export class ScriptedStorage {
  /** In JSON, as the service stores them. */
  readonly #stored = new Map<string, string>();
  #bytes = 0;

  get(key: string): unknown {
    return JSON.parse(this.#stored.get(requireKey(key)) ?? 'null');
  }

  /** @throws HostError when the storage is full */
  set(key: string, value: unknown): void {
    const entry = { key: requireKey(key), value: encodeStored(value) };
    const use = { bytes: this.#bytes - this.#measure(key), keys: this.#stored.size, isNew: !this.#stored.has(key) };
    const entryBytes = measureEntry(entry);
    requireSpace(findStorageExcess(use, entryBytes, limits.storageBytes), limits.storageBytes);
    this.#stored.set(key, entry.value);
    this.#bytes = use.bytes + entryBytes;
  }

  delete(key: string): void {
    this.#bytes -= this.#measure(requireKey(key));
    this.#stored.delete(key);
  }

  /** @throws HostError when there are too many */
  list(prefix: string): string[] {
    requireKey(prefix);
    const found = [...this.#stored.keys()].filter((key) => key.startsWith(prefix)).sort(compareBytes);
    return requireListable(found.length > limits.storageListKeys ? null : found);
  }

  #measure(key: string): number {
    const value = this.#stored.get(key);
    return value === undefined ? 0 : measureEntry({ key, value });
  }
}

/** The order of the service. That of `sort` alone differs for characters beyond U+FFFF. */
const compareBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
