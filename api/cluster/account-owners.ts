/** The supervisors that own the accounts, and requests to them. */
import type { Pool } from 'pg';
import { findShard } from '../../db/cluster/shards.ts';
import { type ClusterState, type Peer, readCluster } from '../../db/cluster/supervisors.ts';
import type { Listener, Subscription } from '../../db/postgres/listener.ts';
import { repeatOverLostConnections } from '../../db/postgres/lost-connections.ts';
import { subscribeToShards } from '../../db/postgres/notifications.ts';
import { openPeerRequest, PEER_CATCH_UP } from '../../service/cluster/peer-signature.ts';
import { Agent } from '../../service/http/node-http.ts';

/** An owner on the same network answers in less than a millisecond. */
export const OWNER_ANSWER_MS = 1_000;
/** After a failure, an owner is not asked for this long. Milliseconds. */
const SILENT_MS = 10_000;
/** While an owner is not known, the owners are read again after this: its lease may only have lapsed. Milliseconds. */
const READ_AGAIN_MS = 1_000;
/** Connections are kept this long, less than the supervisor keeps them. Milliseconds. */
const IDLE_MS = 30_000;

export class AccountOwners {
  readonly #pool: Pool;
  readonly #answerMs: number;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS });
  #owners: readonly (Peer | null)[] = [];
  #subscription: Subscription | null = null;
  /** While the owners are read; true: they changed meanwhile. */
  #reading: { again: boolean } | null = null;
  #readAgain: NodeJS.Timeout | null = null;
  #closed = false;
  /** Until when a supervisor that did not answer is not asked, by its id. */
  readonly #silentUntil = new Map<number, number>();

  private constructor(pool: Pool, answerMs: number) {
    this.#pool = pool;
    this.#answerMs = answerMs;
  }

  /** @param answerMs time for an owner to answer. Milliseconds */
  static async open(pool: Pool, listener: Listener, answerMs: number = OWNER_ANSWER_MS): Promise<AccountOwners> {
    const owners = new AccountOwners(pool, answerMs);
    const read = () => void owners.#read();
    owners.#subscription = await subscribeToShards(listener, read, read);
    await owners.#read();
    return owners;
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#readAgain) clearTimeout(this.#readAgain);
    await this.#subscription?.close();
    this.#agent.destroy();
  }

  /** @returns null: it is not known, or did not answer the last time */
  find(accountId: string): Peer | null {
    const owner = this.#owners[findShard(accountId)] ?? null;
    return owner !== null && !this.isSilent(owner) ? owner : null;
  }

  isSilent({ id }: Peer): boolean {
    return performance.now() < (this.#silentUntil.get(id) ?? 0);
  }

  /** Does not ask the supervisor for some seconds. */
  silence({ id }: Peer): void {
    this.#silentUntil.set(id, performance.now() + SILENT_MS);
  }

  /**
   * Resolves when the owner of the account knows of all that was committed before, so that the next call to it runs with that.
   * Waits at most `OWNER_ANSWER_MS`: an owner that does not answer is notified by PostgreSQL.
   *
   * @param accountId null: of every account
   */
  async catchUp(accountId: string | null): Promise<void> {
    const all = accountId === null ? this.#owners : [this.find(accountId)];
    const asked = new Map(all.flatMap((owner) => (owner && !this.isSilent(owner) ? [[owner.id, owner]] : [])));
    await Promise.all([...asked.values()].map((owner) => this.request(owner, PEER_CATCH_UP)));
  }

  /** @returns the status; null: it did not answer */
  async request(owner: Peer, path: string): Promise<number | null> {
    try {
      return await this.#send(owner, path);
    } catch (error) {
      // One that answers too late may only be busy.
      if ((error as Error).name !== 'AbortError') this.silence(owner);
      return null;
    }
  }

  async #read(): Promise<void> {
    if (this.#reading) {
      this.#reading.again = true;
      return;
    }
    const reading = { again: true };
    this.#reading = reading;
    let isComplete = false;
    while (reading.again) {
      reading.again = false;
      const state = await repeatOverLostConnections(() => readCluster(this.#pool)).catch(() => null);
      isComplete = state !== null && this.#apply(state);
    }
    this.#reading = null;
    if (isComplete || this.#closed) return;
    if (this.#readAgain) clearTimeout(this.#readAgain);
    this.#readAgain = setTimeout(() => void this.#read(), READ_AGAIN_MS).unref();
  }

  /** @returns whether all owners are there */
  #apply({ peers, shards }: ClusterState): boolean {
    const live = new Map(peers.filter(({ expiresInMs }) => expiresInMs > 0).map((peer) => [peer.id, peer]));
    this.#owners = shards.map(([owner]) => (owner === null ? null : (live.get(owner) ?? null)));
    for (const id of this.#silentUntil.keys()) if (!live.has(id)) this.#silentUntil.delete(id);
    return shards.every(([owner]) => owner === null || live.has(owner));
  }

  #send(peer: Peer, path: string): Promise<number | null> {
    const request = { method: 'POST', path, hops: 1 };
    const { promise, resolve, reject } = Promise.withResolvers<number | null>();
    const sent = openPeerRequest(this.#agent, peer, request, AbortSignal.timeout(this.#answerMs));
    sent.once('response', (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? null);
    });
    sent.on('error', reject);
    sent.end();
    return promise;
  }
}
