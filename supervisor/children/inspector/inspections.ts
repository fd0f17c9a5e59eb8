/** The open inspectors of this supervisor, by token. */
import type { Pool } from 'pg';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { mayTakePlace } from '../../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../../db/timing/amounts-by-key.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import type { AuditSink } from '../../records/audit-sink.ts';
import type { LogSink } from '../../records/log-sink.ts';
import type { Fleet } from '../fleet.ts';
import { requireOwnDraft } from '../own-draft.ts';
import { Inspection, type InspectionEvent } from './inspection.ts';
import { createToken } from './inspection-token.ts';

/** Open inspectors of one supervisor. Each keeps a child from being stopped. */
const INSPECTIONS_MAX = 16;
/** `Retry-After` when all are in use, seconds. */
const RETRY_AFTER_S = 60;
/** An inspector is closed after a working day. Milliseconds. */
const OPEN_MAX_MS = 8 * 3_600_000;

interface InspectionDeps {
  readonly supervisorId: number;
  readonly pool: Pool;
  readonly fleet: Fleet;
  readonly logs: LogSink;
  readonly audit: AuditSink;
  /** Why inspection is disabled, one sentence; null if it is enabled. */
  readonly off: string | null;
}

export class Inspections {
  readonly #deps: InspectionDeps;
  readonly #open = new Map<string, Inspection>();
  /** Open inspectors by account. */
  readonly #openOf = new AmountsByKey();
  /** Ids of the installations whose inspector is open. */
  readonly #inspected = new Set<string>();

  constructor(deps: InspectionDeps) {
    this.#deps = deps;
  }

  /** Whether inspection is enabled. */
  get allowed(): boolean {
    return this.#deps.off === null;
  }

  find(token: string): Inspection | undefined {
    return this.#open.get(token);
  }

  /**
   * Opens the inspector of a draft for its author.
   *
   * @param onEvent called for each event; `closed` is the last
   * @returns the inspection, which the caller must end
   * @throws Problem `inspector_off`, `not_found`, `not_a_draft`, `inspector_open`, `not_running`, `unavailable`
   */
  async open(
    accountId: string,
    installationId: string,
    onEvent: (event: InspectionEvent) => void,
  ): Promise<Inspection> {
    const plugin = await this.#checkMayOpen(accountId, installationId);
    let close: (() => void) | null = null;
    const inspection: Inspection = new Inspection(createToken(this.#deps.supervisorId), (event) => {
      this.#logEvent(plugin, event);
      if (event.type === 'closed') {
        this.#remove(plugin, inspection);
        close?.();
      }
      onEvent(event);
    });
    this.#open.set(inspection.token, inspection);
    this.#openOf.add(accountId);
    this.#inspected.add(installationId);
    const started = await this.#deps.fleet.inspect(plugin, inspection).catch(() => 'it could not be started');
    if (typeof started === 'string') {
      this.#remove(plugin, inspection);
      throw new Problem('not_running', `The draft cannot be inspected: ${started}.`);
    }
    close = this.#recordOpen(plugin, inspection, started);
    // The inspection may have ended while its child started, for example by an uninstall.
    if (inspection.hasEnded) close();
    return inspection;
  }

  close(): void {
    for (const inspection of [...this.#open.values()]) inspection.end('the supervisor is stopping');
  }

  async #checkMayOpen(accountId: string, installationId: string): Promise<InstalledPlugin> {
    const { pool, off } = this.#deps;
    if (off !== null) throw new Problem('inspector_off', off);
    const plugin = await requireOwnDraft(pool, accountId, installationId);
    if (this.#inspected.has(installationId))
      throw new Problem('inspector_open', 'The inspector of this draft is already open. Close the other one first.');
    if (this.#open.size >= INSPECTIONS_MAX)
      throw new Problem('unavailable', `All ${INSPECTIONS_MAX} inspectors are in use.`, { retryAfter: RETRY_AFTER_S });
    const own = this.#openOf.get(accountId);
    if (!mayTakePlace(own, INSPECTIONS_MAX - this.#open.size)) {
      const why = `This account has ${own} inspectors open, and the others are kept for other accounts. Close one first.`;
      throw new Problem('unavailable', why, { retryAfter: RETRY_AFTER_S });
    }
    return plugin;
  }

  #remove({ installationId, accountId }: InstalledPlugin, { token }: Inspection): void {
    if (!this.#open.delete(token)) return;
    this.#inspected.delete(installationId);
    this.#openOf.subtract(accountId);
  }

  /** Records the opening and limits its duration. @returns a function to call when the inspection ends */
  #recordOpen(plugin: InstalledPlugin, inspection: Inspection, stop: () => void): () => void {
    const { audit, logs } = this.#deps;
    const openedAt = Date.now();
    const tooLong = setTimeout(() => inspection.end('it was open for 8 hours'), OPEN_MAX_MS).unref();
    const { accountId, installationId } = plugin;
    const of = { accountId, installationId, sessionId: null, invocationId: null };
    const call = { ...of, outcome: 'ok', argumentsSha256: null } as const;
    audit.write({ ...call, member: 'inspector.open', durationMs: 0, detail: 'by its author' });
    logs.system(plugin, 'warn', 'Inspector opened: the author can run any code in the plugin’s process');
    return () => {
      clearTimeout(tooLong);
      stop();
      audit.write({ ...call, member: 'inspector.close', durationMs: Date.now() - openedAt });
    };
  }

  #logEvent(plugin: InstalledPlugin, event: InspectionEvent): void {
    const { logs } = this.#deps;
    if (event.type === 'attached') logs.system(plugin, 'info', 'Debugger attached: deadlines are paused');
    if (event.type === 'detached') logs.system(plugin, 'info', 'Debugger detached: deadlines are resumed');
    if (event.type === 'closed') logs.system(plugin, 'info', `Inspector closed: ${event.reason}`);
  }
}
