/** Works on one queue: as many jobs at once as allowed, each settled on its own, no job waiting behind another's. */
import type { Job, PgBoss } from 'pg-boss';

export interface WorkerBounds {
  /** Jobs worked on at once. */
  readonly concurrency: number;
  /** Of one group. */
  readonly perGroup: number;
  /** Poll while nothing wakes the worker, seconds: the backstop of a lost NOTIFY and the grain of delayed jobs. */
  readonly pollSeconds: number;
}

/** Wait after a fetch that failed (the database is away), milliseconds. */
const FAULT_PAUSE_MS = 500;

/**
 * Fetches when woken, when a job ends and every `pollSeconds`. pg-boss's own `work` waits out its poll after each job and
 * lets a batch wait for its slowest; this does neither.
 */
export class QueueWorker {
  readonly #boss: PgBoss;
  readonly #name: string;
  readonly #bounds: WorkerBounds;
  readonly #handler: (data: unknown) => Promise<void>;
  readonly #onError: (error: Error) => void;
  readonly #running = new Set<Promise<void>>();
  readonly #groups = new Map<string, number>();
  #woken = false;
  #stopping = false;
  #sleeper: (() => void) | null = null;
  readonly #loop: Promise<void>;

  constructor(
    boss: PgBoss,
    name: string,
    bounds: WorkerBounds,
    handler: (data: unknown) => Promise<void>,
    onError: (error: Error) => void,
  ) {
    this.#boss = boss;
    this.#name = name;
    this.#bounds = bounds;
    this.#handler = handler;
    this.#onError = onError;
    this.#loop = this.#run();
  }

  /** Fetch now: a job was added. */
  wake(): void {
    this.#woken = true;
    this.#sleeper?.();
  }

  /** Fetches no more and waits for the running handlers, at most `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    this.wake();
    await this.#loop;
    if (graceMs <= 0 || this.#running.size === 0) return;
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, graceMs);
    await Promise.race([Promise.allSettled(this.#running), late]);
    clearTimeout(timer);
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      this.#woken = false;
      if (this.#running.size < this.#bounds.concurrency && (await this.#take())) continue;
      if (!this.#woken && !this.#stopping) await this.#sleep(this.#bounds.pollSeconds * 1000);
    }
  }

  async #take(): Promise<boolean> {
    const full = [...this.#groups].filter(([, count]) => count >= this.#bounds.perGroup).map(([group]) => group);
    try {
      const [job] = await this.#boss.fetch(this.#name, full.length ? { ignoreGroups: full } : {});
      if (!job) return false;
      const work = this.#work(job).finally(() => {
        this.#running.delete(work);
        this.wake();
      });
      this.#running.add(work);
      return true;
    } catch (error) {
      this.#onError(error as Error);
      await this.#sleep(FAULT_PAUSE_MS);
      return false;
    }
  }

  async #work(job: Job<unknown>): Promise<void> {
    const group = job.groupId ?? null;
    if (group !== null) this.#groups.set(group, (this.#groups.get(group) ?? 0) + 1);
    try {
      await this.#handler(job.data);
      await this.#boss.complete(this.#name, job.id);
    } catch (error) {
      this.#onError(error as Error);
      const message = (error as Error).message;
      // The job stays active when even this fails, and expires into a retry.
      await this.#boss.fail(this.#name, job.id, { message }).catch(this.#onError);
    } finally {
      if (group !== null) this.#release(group);
    }
  }

  #release(group: string): void {
    const left = (this.#groups.get(group) ?? 1) - 1;
    if (left > 0) this.#groups.set(group, left);
    else this.#groups.delete(group);
  }

  #sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    this.#sleeper = resolve;
    return promise.finally(() => {
      clearTimeout(timer);
      this.#sleeper = null;
    });
  }
}
