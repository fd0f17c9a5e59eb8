/**
 * Jobs whose work belongs to the owner of an account. Whichever supervisor fetches a job does it, or asks the owner to: a job
 * only says that there may be work.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { findAccountId } from '../../db/installations/account-plugins.ts';
import type { Payload, QueueName, Queues } from '../../db/jobs/queues.ts';
import { asAccount } from '../../db/postgres/shares.ts';
import type { OwnedWork, Ownership } from './ownership.ts';
import type { PeerRequests } from './peer-requests.ts';

/** Delay before a job whose account is being handed over is offered again. Milliseconds. */
const MOVE_DELAY_MS = 250;
/** How long a job is offered before it fails and the queue retries it. Milliseconds. */
const MOVE_WAIT_MS = 15_000;

type OwnedQueue = Exclude<QueueName, 'introspect'>;
type OwnedHandler<Name extends OwnedQueue> = (payload: Payload<Name>, work: OwnedWork) => Promise<void>;

interface OwnedJobsOptions {
  readonly pool: Pool;
  readonly queues: Pick<Queues, 'work'>;
  readonly ownership: Pick<Ownership, 'begin' | 'findOwner'>;
  readonly peers: Pick<PeerRequests, 'sendJob'>;
}

export class OwnedJobs {
  readonly #options: OwnedJobsOptions;
  readonly #handlers = new Map<string, (payload: never, work: OwnedWork) => Promise<void>>();

  constructor(options: OwnedJobsOptions) {
    this.#options = options;
  }

  work<Name extends OwnedQueue>(name: Name, handler: OwnedHandler<Name>): void {
    this.#handlers.set(name, handler as (payload: never, work: OwnedWork) => Promise<void>);
    this.#options.queues.work(name, (payload, accountId) => this.#run(name, payload, accountId));
  }

  /** Does a job that another supervisor fetched. @returns false: this one does not own the account either */
  async runHere(name: string, accountId: string, payload: unknown): Promise<boolean> {
    const handler = this.#handlers.get(name);
    const work = this.#options.ownership.begin(accountId);
    if (!handler || !work) {
      work?.end();
      return false;
    }
    try {
      await asAccount(accountId, () => handler(payload as never, work));
      return true;
    } finally {
      work.end();
    }
  }

  async #run(name: string, payload: { readonly installationId: string }, given: string | undefined): Promise<void> {
    const { pool, ownership, peers } = this.#options;
    const accountId = given ?? (await findAccountId(pool, payload.installationId));
    if (accountId === null) return;
    const endsAt = performance.now() + MOVE_WAIT_MS;
    while (!(await this.runHere(name, accountId, payload))) {
      const owner = await ownership.findOwner(accountId);
      if (owner === null) continue;
      if (await peers.sendJob(owner, name, accountId, payload)) return;
      if (performance.now() > endsAt)
        throw new Error(
          `The job ${name} was not run: no supervisor took its account within ${MOVE_WAIT_MS / 1_000} s. The queue retries it.`,
        );
      await sleep(MOVE_DELAY_MS);
    }
  }
}
