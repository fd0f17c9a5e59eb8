/** `host.storage`: the installation's key-value store. */
import type { Pool } from 'pg';
import {
  deleteStorageValue,
  listStorageKeys,
  readStorageValue,
  writeStorageValue,
} from '../../db/installations/plugin-storage.ts';
import { COSTLY_BYTES } from '../../service/timing/loop-turns.ts';
import type { HostHandlers } from './host-call.ts';
import { encodeStored, requireKey, requireListable, requireSpace } from './stored-values.ts';

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
    requireSpace(excess, maxBytes);
    return undefined;
  },
  'storage.delete': async ({ plugin, signal, writes }, { key }) => {
    await deleteStorageValue(writes, plugin.installationId, requireKey(key), signal);
    return undefined;
  },
  'storage.list': async ({ plugin }, { prefix }) =>
    requireListable(await listStorageKeys(pool, plugin.installationId, requireKey(prefix ?? ''))),
});
