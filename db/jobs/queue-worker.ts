/** Works on one pg-boss queue. Jobs run concurrently and are completed one by one. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, PgBoss } from 'pg-boss';
import { SECOND } from '../../sdk/contract/limits.ts';
import { Waker } from '../timing/waker.ts';
import { mayTakePlace } from './account-share.ts';

interface WorkerLimits {
  readonly concurrency: number;
  /** Maximum number of jobs of one group at once. */
  readonly perGroup: number;
  /** Poll interval, seconds: covers lost notifications and starts delayed jobs. */
  readonly pollSeconds: number;
  /** Interval of the heartbeats of a running job, seconds. Default: none. */
  readonly heartbeatSeconds?: number | undefined;
}

interface QueueWorkerOptions {
  readonly boss: PgBoss;
  readonly name: string;
  readonly limits: WorkerLimits;
  /** @param accountId of the job's group */
  handler(data: unknown, accountId: string | undefined): Promise<void>;
  onError(error: Error): void;
}

/** pg-boss counts the jobs of a group in all processes, also of killed ones; `perGroup` is counted here instead. */
const NO_GROUP_LIMIT = 1_000_000;

/**
 * Fetches when woken, when a job ends and every `pollSeconds`. pg-boss's own `work` waits for its poll interval after each
 * job, and its batches wait for their slowest job.
 */
export class QueueWorker {
  readonly #options: QueueWorkerOptions;
  readonly #running = new Map<Promise<void>, Job<unknown>>();
  readonly #waker = new Waker();
  readonly #loop: Promise<void>;

  constructor(options: QueueWorkerOptions) {
    this.#options = options;
    this.#loop = this.#run();
  }

  wake(): void {
    this.#waker.wake();
  }

  /** Stops fetching and waits for running handlers, at most `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.#waker.close();
    await this.#loop;
    if (graceMs <= 0 || this.#running.size === 0) return;
    await Promise.race([Promise.allSettled(this.#running.keys()), sleep(graceMs, undefined, { ref: false })]);
  }

  async #run(): Promise<void> {
    const { concurrency, pollSeconds } = this.#options.limits;
    while (!this.#waker.isClosed) {
      if (this.#running.size < concurrency && (await this.#startJob())) continue;
      await this.#waker.wait(pollSeconds * 1000);
    }
  }

  async #startJob(): Promise<boolean> {
    try {
      const job = await this.#fetch();
      if (!job) return false;
      const work = this.#runJob(job).finally(() => {
        this.#running.delete(work);
        this.wake();
      });
      this.#running.set(work, job);
      return true;
    } catch (error) {
      this.#options.onError(error as Error);
      return false;
    }
  }

  /** Claims a job whose group and account may run another one. Once places are scarce, accounts that have none go first. */
  async #fetch(): Promise<Job<unknown> | undefined> {
    const { concurrency, perGroup } = this.#options.limits;
    const free = concurrency - this.#running.size;
    const groups = count([...this.#running.values()].map(({ groupId }) => groupId));
    const accounts = count([...this.#running.values()].map(({ groupTier }) => groupTier));
    const fullGroups = [...groups].filter(([, running]) => running >= perGroup).map(([group]) => group);
    const fullAccounts = [...accounts]
      .filter(([, running]) => !mayTakePlace(running, free))
      .map(([account]) => account);
    if (accounts.size > fullAccounts.length && 2 * free <= concurrency) {
      const job = await this.#fetchExcept(fullGroups, [...accounts.keys()]);
      if (job) return job;
    }
    return this.#fetchExcept(fullGroups, fullAccounts);
  }

  async #fetchExcept(groups: readonly string[], accountIds: readonly string[]): Promise<Job<unknown> | undefined> {
    const { boss, name } = this.#options;
    // The tier of a group is its account, and no group of a tier with limit 0 is fetched.
    const tiers = Object.fromEntries(accountIds.map((accountId) => [accountId, 0]));
    const [job] = await boss.fetch(name, {
      ...(groups.length > 0 ? { ignoreGroups: [...groups] } : {}),
      ...(accountIds.length > 0 ? { groupConcurrency: { default: NO_GROUP_LIMIT, tiers } } : {}),
    });
    return job;
  }

  async #runJob(job: Job<unknown>): Promise<void> {
    const { boss, name, handler, onError } = this.#options;
    const stopHeartbeats = this.#startHeartbeats(job.id);
    try {
      await handler(job.data, job.groupTier ?? undefined);
      await boss.complete(name, job.id);
    } catch (error) {
      onError(error as Error);
      const message = (error as Error).message;
      // If this fails too, the job stays active until it expires, and pg-boss retries it.
      await boss.fail(name, job.id, { message }).catch(onError);
    } finally {
      stopHeartbeats();
    }
  }

  #startHeartbeats(jobId: string): () => void {
    const { boss, name, limits } = this.#options;
    if (limits.heartbeatSeconds === undefined) return () => undefined;
    // A heartbeat that fails only lets the job be queued once more.
    const beat = (): void => void boss.touch(name, jobId).catch(() => undefined);
    const timer = setInterval(beat, limits.heartbeatSeconds * SECOND).unref();
    return () => clearInterval(timer);
  }
}

/** How often each value occurs, without those that are absent. */
function count(values: readonly (string | null | undefined)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) if (value != null) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}
