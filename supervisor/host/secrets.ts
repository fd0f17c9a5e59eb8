/** `host.secrets`: the installation's secrets, decrypted for each call. */
import type { Pool } from 'pg';
import { readSecret, type SecretKeys } from '../../db/files/secrets.ts';
import type { SecretMasks } from '../records/secret-mask.ts';
import type { HostHandlers } from './host-call.ts';

export const secretCalls = (pool: Pool, keys: SecretKeys, masks: SecretMasks): Pick<HostHandlers, 'secrets.get'> => ({
  'secrets.get': async ({ plugin: { installationId } }, { name }) => {
    const value = await readSecret(pool, keys, installationId, name);
    // Masked before the child knows it: the user may have changed it since the child started.
    if (value !== null) masks.open(installationId).add(name, value);
    return value;
  },
});
