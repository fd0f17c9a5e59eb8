/** The handler calls that run in children now: the only source of a host call's session. */
import type { Session } from '../../db/sessions/sessions.ts';
import type { Target } from '../../sdk/contract/protocol.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';

/** One call of a handler, from the first byte sent to its result, refusal or deadline. */
export interface Invocation {
  readonly id: string;
  readonly installationId: string;
  readonly session: Session | null;
  readonly kind: Target['kind'];
  /** Name of the handler in log lines. */
  readonly source: string;
  /** Aborts when the call is over, however it ended. */
  readonly over: AbortSignal;
  /** W3C traceparent of the call, because the pipe carries none; null when the call is not traced. */
  readonly trace: string | null;
  /** Begins a host call, whose wait does this to the handler's budget. @returns ends it */
  beginHostCall(budget: HostRow['budget']): () => void;
}

export class Invocations {
  readonly #running = new Map<string, Invocation>();

  begin(invocation: Invocation): void {
    this.#running.set(invocation.id, invocation);
  }

  end(id: string): void {
    this.#running.delete(id);
  }

  listRunning(installationId: string): Invocation[] {
    return [...this.#running.values()].filter((running) => running.installationId === installationId);
  }

  /** Finds a running invocation of this installation. Ids of other installations find nothing. */
  find(id: string | null, installationId: string): Invocation | null {
    const found = id === null ? undefined : this.#running.get(id);
    return found?.installationId === installationId ? found : null;
  }
}
