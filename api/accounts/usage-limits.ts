/** The quotas of an account, from the settings. */
import type { UsageKind } from '../../sdk/contract/usage-kinds.ts';
import type { ApiConfig } from '../config.ts';

export function usageLimits(config: ApiConfig): Record<UsageKind, number> {
  return {
    versions: config.VERSION_BYTES,
    drafts: config.DRAFT_BYTES,
    blobs: config.BLOB_BYTES,
    transcripts: config.TRANSCRIPT_BYTES,
    deliveries: config.DELIVERY_BYTES,
    media: config.MEDIA_BYTES,
    workspaces: config.WORKSPACE_BYTES,
    storage: config.STORAGE_BYTES * config.INSTALLATIONS_PER_ACCOUNT,
    logs: config.LOG_BYTES,
    audit: config.AUDIT_BYTES,
  };
}
