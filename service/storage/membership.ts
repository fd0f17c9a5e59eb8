/** Describes this process to the cluster of its database when it joins. */
import type { Pool } from 'pg';
import type { Member } from '../../db/cluster/cluster-record.ts';
import { openKeyFiles } from '../../db/files/key-files.ts';
import { RELEASE } from '../settings/release.ts';
import type { SharedSettings } from '../settings/settings.ts';
import { describeBlobPlace } from './blob-stores.ts';
import { openConfiguredKeys } from './cluster-key.ts';

export const describeMember = async (pool: Pool, settings: SharedSettings): Promise<Member> => ({
  dataDir: settings.DATA_DIR,
  keys: await openConfiguredKeys(pool, settings),
  keyFiles: openKeyFiles(settings.DATA_DIR),
  release: RELEASE,
  signsTokens: settings.OIDC_ISSUER === undefined,
  blobs: describeBlobPlace(pool, settings),
});
