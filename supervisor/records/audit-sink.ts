/** Writes the audit log of host calls in batches: digests instead of contents. */
import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import { orderedId } from '../../db/postgres/ordered-id.ts';
import { replaceUnstorable } from '../../db/postgres/storable-json.ts';
import { type AuditEntry, insertAudit } from '../../db/records/audit.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { Batch } from './batch.ts';
import type { SecretMasks } from './secret-mask.ts';

const QUEUE_BYTES = 16 * MIB;
const ENTRY_BYTES = 500;
/** Maximum length of an entry's explanation. Characters. */
const DETAIL_MAX_CHARS = 500;
const MEMBER_MAX_CHARS = 100;

interface WaitingEntry extends AuditEntry {
  readonly accountId: string;
}
interface AuditedCall extends Omit<WaitingEntry, 'id' | 'at' | 'argumentsSha256' | 'detail'> {
  readonly args: unknown;
  readonly detail?: string | null;
}

export class AuditSink {
  readonly #batch: Batch<WaitingEntry>;
  readonly #masks: SecretMasks;

  constructor(pool: Pool, masks: SecretMasks, options: { onError(error: Error): void }) {
    this.#masks = masks;
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

  write({ args, member, detail, ...call }: AuditedCall): void {
    const now = Date.now();
    const mask = this.#masks.get(call.installationId);
    this.#batch.add({
      id: orderedId(now),
      at: new Date(now).toISOString(),
      ...call,
      // Denied calls may name anything, so the stored text is made storable and shortened.
      member: shorten(mask.maskText(replaceUnstorable(member)), MEMBER_MAX_CHARS),
      argumentsSha256: digest(args),
      detail: detail == null ? null : shorten(mask.maskText(replaceUnstorable(detail)), DETAIL_MAX_CHARS),
    });
  }

  flush(): Promise<void> {
    return this.#batch.flush();
  }
}

/**
 * Shortened after masking, so that no part of a secret is left. Copies, because a slice would keep the whole text in memory. The
 * copy has whole characters only.
 */
const shorten = (text: string, maxChars: number): string =>
  text.length <= maxChars ? text : Buffer.from(text.slice(0, maxChars)).toString();

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
