/** Writes the audit log of host calls in batches: digests instead of contents. */
import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import { orderedId } from '../../db/postgres/ordered-id.ts';
import { replaceUnstorable } from '../../db/postgres/storable-json.ts';
import { type AuditEntry, insertAudit } from '../../db/records/audit.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { cutText } from '../children/child-text.ts';
import { Batch } from './batch.ts';
import type { SecretMasks } from './secret-mask.ts';

const QUEUE_BYTES = 16 * MIB;
const ENTRY_BYTES = 500;
/** Maximum length of an entry's explanation. Characters. */
const DETAIL_MAX_CHARS = 500;
const MEMBER_MAX_CHARS = 100;
/** The member of an entry that says how many others are missing. */
const DROPPED_MEMBER = 'dropped';

interface WaitingEntry extends AuditEntry {
  readonly accountId: string;
  /** Whether it is the host's report of dropped entries. Its member does not show that, because denied calls may name anything. */
  readonly isReport: boolean;
}
interface AuditedCall extends Omit<WaitingEntry, 'id' | 'at' | 'detail' | 'isReport'> {
  readonly detail?: string | null;
}

export class AuditSink {
  readonly #batch: Batch<WaitingEntry>;
  readonly #masks: SecretMasks;
  readonly #onEntries: (written: number, dropped: number) => void;
  /** Entries of each installation that were dropped since its last report. Empty again soon after the database takes entries. */
  readonly #dropped = new Map<string, { readonly accountId: string; count: number }>();

  constructor(
    pool: Pool,
    masks: SecretMasks,
    options: { onError(error: Error): void; onEntries?(written: number, dropped: number): void },
  ) {
    this.#masks = masks;
    this.#onEntries = options.onEntries ?? (() => undefined);
    this.#batch = new Batch<WaitingEntry>({
      maxBytes: QUEUE_BYTES,
      sizeOf: () => ENTRY_BYTES,
      accountOf: ({ accountId }) => accountId,
      // Reports have a separate owner, so that the installation's entries cannot fill their share of the buffer.
      ownerOf: ({ isReport, installationId, accountId }) => (isReport ? `reports ${accountId}` : installationId),
      write: async (entries, isRetry) => {
        await insertAudit(pool, entries, isRetry);
        this.#onEntries(entries.length, 0);
        this.#reportDropped();
      },
      onError: options.onError,
      onRejected: (entries) => {
        for (const entry of entries) this.#countDropped(entry);
        this.#reportDropped();
      },
    });
  }

  get waiting(): number {
    return this.#batch.length;
  }

  write({ member, detail, ...call }: AuditedCall): void {
    const mask = this.#masks.get(call.installationId);
    const entry = {
      ...createStamp(),
      ...call,
      isReport: false,
      // Denied calls may name anything, so the stored text is made storable, and cut after masking: no part of a secret is left.
      member: cutText(mask.maskText(replaceUnstorable(member)), MEMBER_MAX_CHARS),
      detail: detail == null ? null : cutText(mask.maskText(replaceUnstorable(detail)), DETAIL_MAX_CHARS),
    };
    if (!this.#batch.add(entry)) this.#countDropped(entry);
  }

  flush(): Promise<void> {
    return this.#batch.flush();
  }

  /** A report is not counted for the next one: one that the database rejects would be repeated forever. */
  #countDropped({ isReport, installationId, accountId }: WaitingEntry): void {
    this.#onEntries(0, 1);
    if (isReport) return;
    const dropped = this.#dropped.get(installationId) ?? { accountId, count: 0 };
    dropped.count += 1;
    this.#dropped.set(installationId, dropped);
  }

  /** Adds an entry for each installation that lacks some. Those that find no room are added after the next statement. */
  #reportDropped(): void {
    for (const [installationId, { accountId, count }] of this.#dropped) {
      const isAdded = this.#batch.add({
        ...createStamp(),
        accountId,
        installationId,
        isReport: true,
        sessionId: null,
        invocationId: null,
        member: DROPPED_MEMBER,
        outcome: 'failed',
        durationMs: 0,
        argumentsSha256: null,
        detail: `${count} entries dropped: too many waited for the database, or it rejects them`,
      });
      if (isAdded) this.#dropped.delete(installationId);
    }
  }
}

function createStamp(): Pick<AuditEntry, 'id' | 'at'> {
  const now = Date.now();
  return { id: orderedId(now), at: new Date(now).toISOString() };
}

/** Digests the arguments of a call. Those of the largest calls take 40 ms. */
export function digestArguments(args: unknown): string {
  const hash = createHash('sha256');
  // Bytes are hashed directly: their JSON would be many times larger.
  const text = JSON.stringify(args, (_key, value) => {
    if (!(value instanceof Uint8Array)) return value;
    hash.update(value);
    return value.byteLength;
  });
  return hash.update(text ?? '').digest('hex');
}
