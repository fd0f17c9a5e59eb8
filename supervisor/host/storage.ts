/** `host.storage`: the installation's key-value store. */
import type { Pool } from 'pg';
import {
  deleteStorageValue,
  listStorageKeys,
  readStorageValue,
  writeStorageValue,
} from '../../db/installations/plugin-storage.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { COSTLY_BYTES } from '../../service/timing/loop-turns.ts';
import { HostError, type HostHandlers } from './host-call.ts';
import { encodeStored, requireKey } from './stored-values.ts';

type Calls = 'storage.get' | 'storage.set' | 'storage.delete' | 'storage.list';

export const storageCalls = (pool: Pool, maxBytes: number): Pick<HostHandlers, Calls> => ({
  'storage.get': async ({ plugin, resultTurn }, { key }) => {
    const text = await readStorageValue(pool, plugin.installationId, requireKey(key));
    if (text === null) return null;
    if (text.length > COSTLY_BYTES) await resultTurn.wait();
    return JSON.parse(text);
  },
  'storage.set': async ({ plugin, signal, writes }, { key, value }) => {
    const stored = { key: requireKey(key), value: encodeStored(value) };
    const excess = await writeStorageValue(writes, plugin.installationId, stored, maxBytes, signal);
    if (excess === 'bytes')
      throw new HostError(`storage is full: an installation keeps ${maxBytes} bytes of keys and values`);
    if (excess === 'keys') throw new HostError(`storage is full: an installation keeps ${limits.storageKeys} keys`);
    return undefined;
  },
  'storage.delete': async ({ plugin, signal, writes }, { key }) => {
    await deleteStorageValue(writes, plugin.installationId, requireKey(key), signal);
    return undefined;
  },
  'storage.list': async ({ plugin }, { prefix }) => {
    const keys = await listStorageKeys(pool, plugin.installationId, requireKey(prefix ?? ''));
    if (!keys) throw new HostError(`there are more than ${limits.storageListKeys} keys: list a longer prefix`);
    return keys;
  },
});
