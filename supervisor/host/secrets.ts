/** `host.secrets`: the installation's secrets, decrypted for each call and never cached. */
import type { Pool } from 'pg';
import { readSecret, type SecretKeys } from '../../db/files/secrets.ts';
import type { HostHandlers } from './host-call.ts';

export const secretCalls = (pool: Pool, keys: SecretKeys): Pick<HostHandlers, 'secrets.get'> => ({
  'secrets.get': ({ plugin }, { name }) => readSecret(pool, keys, plugin.installationId, name),
});
