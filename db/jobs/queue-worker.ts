/** Works on one pg-boss queue. Jobs run concurrently and are completed one by one. */
import type { Job, PgBoss } from 'pg-boss';

interface WorkerLimits {
  /** Maximum number of jobs at once. */
  readonly concurrency: number;
  /** Maximum number of jobs of one group at once. */
  readonly perGroup: number;
  /** Poll interval, seconds: covers lost notifications and starts delayed jobs. */
  readonly pollSeconds: number;
}

/** Delay after a fetch failed because the database is unavailable. Milliseconds. */
const RETRY_DELAY_MS = 500;

/**
 * Fetches when woken, when a job ends and every `pollSeconds`. pg-boss's own `work` waits for its poll interval after each
 * job, and its batches wait for their slowest job.
 */
export class QueueWorker {
  readonly #boss: PgBoss;
  readonly #name: string;
  readonly #limits: WorkerLimits;
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
    limits: WorkerLimits,
    handler: (data: unknown) => Promise<void>,
    onError: (error: Error) => void,
  ) {
    this.#boss = boss;
    this.#name = name;
    this.#limits = limits;
    this.#handler = handler;
    this.#onError = onError;
    this.#loop = this.#run();
  }

  /** Fetches now. */
  wake(): void {
    this.#woken = true;
    this.#sleeper?.();
  }

  /** Stops fetching and waits for running handlers, at most `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    this.wake();
    await this.#loop;
    if (graceMs <= 0 || this.#running.size === 0) return;
    const { promise: timeout, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, graceMs);
    await Promise.race([Promise.allSettled(this.#running), timeout]);
    clearTimeout(timer);
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      this.#woken = false;
      if (this.#running.size < this.#limits.concurrency && (await this.#startJob())) continue;
      if (!this.#woken && !this.#stopping) await this.#sleep(this.#limits.pollSeconds * 1000);
    }
  }

  async #startJob(): Promise<boolean> {
    const full = [...this.#groups].filter(([, count]) => count >= this.#limits.perGroup).map(([group]) => group);
    try {
      const [job] = await this.#boss.fetch(this.#name, full.length ? { ignoreGroups: full } : {});
      if (!job) return false;
      const work = this.#runJob(job).finally(() => {
        this.#running.delete(work);
        this.wake();
      });
      this.#running.add(work);
      return true;
    } catch (error) {
      this.#onError(error as Error);
      await this.#sleep(RETRY_DELAY_MS);
      return false;
    }
  }

  async #runJob(job: Job<unknown>): Promise<void> {
    const group = job.groupId ?? null;
    if (group !== null) this.#groups.set(group, (this.#groups.get(group) ?? 0) + 1);
    try {
      await this.#handler(job.data);
      await this.#boss.complete(this.#name, job.id);
    } catch (error) {
      this.#onError(error as Error);
      const message = (error as Error).message;
      // If this fails too, the job stays active until it expires, and pg-boss retries it.
      await this.#boss.fail(this.#name, job.id, { message }).catch(this.#onError);
    } finally {
      if (group !== null) this.#leaveGroup(group);
    }
  }

  #leaveGroup(group: string): void {
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
