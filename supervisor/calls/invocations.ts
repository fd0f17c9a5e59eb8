/** What is running inside children right now: the only source of a host call's session. */
import type { Session } from '../../db/sessions/sessions.ts';

/** One call of a handler, from the first byte sent to its answer, refusal or deadline. */
export interface Invocation {
  readonly id: string;
  readonly installationId: string;
  readonly session: Session | null;
  /** The handler, as log lines name it. */
  readonly source: string;
  /** Aborts when the call is over, however it ended: host calls made for it end with it. */
  readonly over: AbortSignal;
  /** W3C traceparent of the call; null: nobody traces it. What it calls comes over the pipe, which carries none. */
  readonly trace: string | null;
  /** The handler waits for a model or an SSH host; answers the end of the wait. */
  pauseBudget(): () => void;
}

export class Invocations {
  readonly #running = new Map<string, Invocation>();

  get size(): number {
    return this.#running.size;
  }

  begin(invocation: Invocation): void {
    this.#running.set(invocation.id, invocation);
  }

  end(id: string): void {
    this.#running.delete(id);
  }

  /** What runs in an installation's children. */
  of(installationId: string): Invocation[] {
    return [...this.#running.values()].filter((running) => running.installationId === installationId);
  }

  /** A running invocation of this very installation: another one's id finds nothing. */
  find(id: string | null, installationId: string): Invocation | null {
    const found = id === null ? undefined : this.#running.get(id);
    return found?.installationId === installationId ? found : null;
  }
}
