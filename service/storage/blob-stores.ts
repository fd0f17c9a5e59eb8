/** Opens the blobs that the settings name. */
import type { Pool } from 'pg';
import { type BlobPlace, openBlobFolder, openBlobObjects, openBlobRows } from '../../db/files/blob-mark.ts';
import { type Blobs, openBlobs } from '../../db/files/blobs.ts';
import { type ObjectStore, openBucket } from '../../db/files/s3.ts';
import { openSharedBlobs } from '../../db/files/shared-blobs.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { SettingsError, type SharedSettings } from '../settings/settings.ts';

type BlobSettings = Pick<
  SharedSettings,
  | 'DATA_DIR'
  | 'BLOBS'
  | 'BLOB_CACHE_MEGABYTES'
  | 'AWS_ENDPOINT_URL'
  | 'AWS_REGION'
  | 'AWS_ACCESS_KEY_ID'
  | 'AWS_SECRET_ACCESS_KEY'
  | 'AWS_SESSION_TOKEN'
>;

/** @param watch wraps the bucket, if blobs are in one */
export async function openConfiguredBlobs(
  pool: Pool,
  settings: BlobSettings,
  watch = (objects: ObjectStore): ObjectStore => objects,
): Promise<Blobs> {
  const { DATA_DIR: dataDir, BLOBS } = settings;
  if (BLOBS === 'files') return openBlobs(dataDir);
  const objects = BLOBS === 'database' ? null : watch(openConfiguredBucket(settings));
  return openSharedBlobs({ pool, objects, dataDir, cacheBytes: settings.BLOB_CACHE_MEGABYTES * MIB });
}

export function describeBlobPlace(pool: Pool, settings: BlobSettings): BlobPlace {
  if (settings.BLOBS === 'files') return openBlobFolder(settings.DATA_DIR);
  return settings.BLOBS === 'database' ? openBlobRows(pool) : openBlobObjects(openConfiguredBucket(settings));
}

/** @throws SettingsError without access keys, and if the endpoint names the bucket */
function openConfiguredBucket(settings: BlobSettings): ObjectStore {
  const { BLOBS, AWS_REGION, AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = settings;
  if (AWS_ACCESS_KEY_ID === undefined || AWS_SECRET_ACCESS_KEY === undefined)
    throw new SettingsError(`AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set for ${BLOBS}.`);
  const bucket = new URL(BLOBS).host;
  // As the pages of some services show it, such as Cloudflare R2.
  if (AWS_ENDPOINT_URL?.endsWith(`/${bucket}`) && new URL(AWS_ENDPOINT_URL).pathname !== '/')
    throw new SettingsError(`AWS_ENDPOINT_URL must not end with the bucket: remove /${bucket}, which BLOBS names.`);
  return openBucket({
    address: BLOBS,
    endpoint: AWS_ENDPOINT_URL ?? `https://s3.${AWS_REGION}.amazonaws.com`,
    region: AWS_REGION,
    credentials: {
      accessKeyId: AWS_ACCESS_KEY_ID,
      secretAccessKey: AWS_SECRET_ACCESS_KEY,
      sessionToken: AWS_SESSION_TOKEN,
    },
  });
}
