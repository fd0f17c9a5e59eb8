/** Writes the audit log of host calls in batches: digests instead of contents. */
import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import { replaceUnstorable } from '../../db/postgres/storable-json.ts';
import { type AuditEntry, insertAudit } from '../../db/records/audit.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { Batch } from './batch.ts';
import { orderedId } from './ordered-id.ts';

const QUEUE_BYTES = 16 * MIB;
const ENTRY_BYTES = 500;
/** Maximum length of an entry's explanation. Characters. */
const DETAIL_MAX_CHARS = 500;

interface WaitingEntry extends AuditEntry {
  readonly accountId: string;
}
interface AuditedCall extends Omit<WaitingEntry, 'id' | 'at' | 'argumentsSha256' | 'detail'> {
  readonly args: unknown;
  readonly detail?: string | null;
}

export class AuditSink {
  readonly #batch: Batch<WaitingEntry>;

  constructor(pool: Pool, options: { onError(error: Error): void }) {
    this.#batch = new Batch<WaitingEntry>({
      maxBytes: QUEUE_BYTES,
      sizeOf: () => ENTRY_BYTES,
      accountOf: ({ accountId }) => accountId,
      ownerOf: ({ installationId }) => installationId,
      write: (entries) => insertAudit(pool, entries),
      onError: options.onError,
    });
  }

  get waiting(): number {
    return this.#batch.length;
  }

  /** Adds one call. */
  write({ args, member, detail, ...call }: AuditedCall): void {
    const now = Date.now();
    this.#batch.add({
      id: orderedId(now),
      at: new Date(now).toISOString(),
      ...call,
      // Denied calls may name anything, so the stored text is shortened and made storable.
      member: replaceUnstorable(member.slice(0, 100)),
      argumentsSha256: digest(args),
      detail: detail == null ? null : replaceUnstorable(detail.slice(0, DETAIL_MAX_CHARS)),
    });
  }

  /** Writes all waiting entries. */
  flush(): Promise<void> {
    return this.#batch.flush();
  }
}

function digest(args: unknown): string {
  const hash = createHash('sha256');
  // Bytes are hashed directly: their JSON would be many times larger.
  const text = JSON.stringify(args, (_key, value) => {
    if (!(value instanceof Uint8Array)) return value;
    hash.update(value);
    return value.byteLength;
  });
  return hash.update(text ?? '').digest('hex');
}
