/** All open inspectors of this supervisor, by the token that stands for each. */
import type { Pool } from 'pg';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import type { AuditSink } from '../../records/audit-sink.ts';
import type { LogSink } from '../../records/log-sink.ts';
import type { Fleet } from '../fleet.ts';
import { requireOwnDraft } from '../own-draft.ts';
import { Inspection, type InspectionEvent } from './inspection.ts';

/** At once in one supervisor: each keeps a child from being stopped. */
const INSPECTIONS_MAX = 16;
/** Seconds after which one of them may be over. */
const RETRY_AFTER_S = 60;
/** The longest any is open, milliseconds: a working day. */
const OPEN_MAX_MS = 8 * 3_600_000;

export interface InspectionDeps {
  readonly pool: Pool;
  readonly fleet: Fleet;
  readonly logs: LogSink;
  readonly audit: AuditSink;
  /** Why nobody may debug anything here, one sentence; null: authors may. */
  readonly off: string | null;
}

export class Inspections {
  readonly #deps: InspectionDeps;
  readonly #open = new Map<string, Inspection>();
  /** Installations of those. */
  readonly #inspected = new Set<string>();

  constructor(deps: InspectionDeps) {
    this.#deps = deps;
  }

  /** Whether anybody may open one. */
  get allowed(): boolean {
    return this.#deps.off === null;
  }

  find(token: string): Inspection | undefined {
    return this.#open.get(token);
  }

  /**
   * Opens the inspector of a draft's own author.
   *
   * @param tell told of everything that happens, `closed` last
   * @returns the inspection; whoever opened it ends it
   * @throws Problem `inspector_off`, `not_found`, `not_a_draft`, `inspector_open`, `not_running`, `unavailable`
   */
  async open(accountId: string, installationId: string, tell: (event: InspectionEvent) => void): Promise<Inspection> {
    const plugin = await this.#admit(accountId, installationId);
    let close: (() => void) | null = null;
    const inspection: Inspection = new Inspection((event) => {
      this.#note(plugin, event);
      if (event.type === 'closed') {
        this.#forget(plugin, inspection);
        close?.();
      }
      tell(event);
    });
    this.#open.set(inspection.token, inspection);
    this.#inspected.add(installationId);
    const started = await this.#deps.fleet.inspect(plugin, inspection).catch(() => 'it could not be started');
    if (typeof started === 'string') {
      this.#forget(plugin, inspection);
      throw new Problem('not_running', `The draft cannot be inspected: ${started}.`);
    }
    close = this.#watch(plugin, inspection, started);
    // Uninstalled, say, while its child started.
    if (inspection.ended) close();
    return inspection;
  }

  /** Ends all. */
  close(): void {
    for (const inspection of [...this.#open.values()]) inspection.end('the supervisor is stopping');
  }

  async #admit(accountId: string, installationId: string): Promise<InstalledPlugin> {
    const { pool, off } = this.#deps;
    if (off !== null) throw new Problem('inspector_off', off);
    const plugin = await requireOwnDraft(pool, accountId, installationId);
    if (this.#inspected.has(installationId))
      throw new Problem('inspector_open', 'The inspector of this draft is open already. Close the other one first.');
    if (this.#open.size >= INSPECTIONS_MAX)
      throw new Problem('unavailable', `All ${INSPECTIONS_MAX} inspectors are in use.`, { retryAfter: RETRY_AFTER_S });
    return plugin;
  }

  #forget({ installationId }: InstalledPlugin, { token }: Inspection): void {
    if (this.#open.delete(token)) this.#inspected.delete(installationId);
  }

  /** @returns what to do at its end */
  #watch(plugin: InstalledPlugin, inspection: Inspection, stop: () => void): () => void {
    const { audit, logs } = this.#deps;
    const openedAt = Date.now();
    const tooLong = setTimeout(() => inspection.end('it was open for 8 hours'), OPEN_MAX_MS).unref();
    const { installationId } = plugin;
    const call = { installationId, sessionId: null, invocationId: null, outcome: 'ok', args: null } as const;
    audit.write({ ...call, member: 'inspector.open', durationMs: 0, detail: 'by its author' });
    logs.system(plugin, 'warn', 'Its inspector is open: its author can run any code in its process');
    return () => {
      clearTimeout(tooLong);
      stop();
      audit.write({ ...call, member: 'inspector.close', durationMs: Date.now() - openedAt });
    };
  }

  #note(plugin: InstalledPlugin, event: InspectionEvent): void {
    const { logs } = this.#deps;
    if (event.type === 'attached') logs.system(plugin, 'info', 'A debugger is attached: deadlines stand still');
    if (event.type === 'detached') logs.system(plugin, 'info', 'The debugger is gone: deadlines count again');
    if (event.type === 'closed') logs.system(plugin, 'info', `Its inspector is closed: ${event.reason}`);
  }
}
