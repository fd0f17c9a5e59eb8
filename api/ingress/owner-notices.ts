/**
 * Notifies the owner of an account of its new deliveries, by a request to the supervisor. A notification of PostgreSQL would
 * wake every process that listens to anything. It is sent instead where the owner is not known or does not answer.
 */
import type { Pool } from 'pg';
import type { NewDelivery } from '../../db/channels/deliveries.ts';
import { findShard } from '../../db/cluster/shards.ts';
import { type Peer, readCluster } from '../../db/cluster/supervisors.ts';
import type { Listener, Subscription } from '../../db/postgres/listener.ts';
import { repeatOverLostConnections } from '../../db/postgres/lost-connections.ts';
import {
  DELIVERY_NOTICES_MAX,
  formatDeliveryNotice,
  notifyDeliveryNotices,
  notifySpoolsSettled,
  subscribeToShards,
} from '../../db/postgres/notifications.ts';
import { PEER_DELIVERIES, PEER_HEADER, signRequest } from '../../service/cluster/peer-signature.ts';
import { Agent, request as openRequest } from '../../service/http/node-http.ts';
import { within } from '../../service/timing/within.ts';

/** An owner on the same network takes a notice in less than a millisecond. */
const ANSWER_MS = 1_000;
/** After a failure, the owner gets notifications for this long. Milliseconds. */
const SILENT_MS = 10_000;
/** Connections are kept this long, less than the supervisor keeps them. Milliseconds. */
const IDLE_MS = 30_000;

interface OwnerNoticesOptions {
  readonly pool: Pool;
  onError(error: Error): void;
}

/** The notices for one supervisor. */
interface Outbox {
  readonly notices: Set<string>;
  sending: Promise<void> | null;
}

export class OwnerNotices {
  readonly #options: OwnerNoticesOptions;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS });
  #owners: readonly (Peer | null)[] = [];
  #subscription: Subscription | null = null;
  /** While the owners are read; true: they changed meanwhile. */
  #reading: { again: boolean } | null = null;
  readonly #outboxes = new Map<number, Outbox>();
  /** Until when a supervisor that did not answer is not asked, by its id. */
  readonly #silentUntil = new Map<number, number>();

  private constructor(options: OwnerNoticesOptions) {
    this.#options = options;
  }

  static async open(options: OwnerNoticesOptions, listener: Listener): Promise<OwnerNotices> {
    const notices = new OwnerNotices(options);
    const read = () => void notices.#read();
    notices.#subscription = await subscribeToShards(listener, read, read);
    await notices.#read();
    // A process that was killed may have stored deliveries that it did not announce.
    await notifySpoolsSettled(options.pool).catch(options.onError);
    return notices;
  }

  /** Whether the owners of all these deliveries are known and answered the last time. */
  canReach(group: readonly NewDelivery[]): boolean {
    return group.every(({ accountId }) => this.#findOwner(accountId) !== null);
  }

  /** Notifies the owners of committed deliveries. Does not wait for them. */
  send(group: readonly NewDelivery[]): void {
    for (const delivery of group) {
      const { channelId, accountId, installationId } = delivery;
      const owner = this.#findOwner(accountId);
      const notice = formatDeliveryNotice({ channelId, accountId, queue: { installationId, direction: 'in' } });
      if (owner) this.#post(owner, notice);
      else void this.#notify([notice]);
    }
  }

  async close(): Promise<void> {
    await this.#subscription?.close();
    await within(Promise.all([...this.#outboxes.values()].map(({ sending }) => sending)), ANSWER_MS);
    this.#agent.destroy();
  }

  #findOwner(accountId: string): Peer | null {
    const owner = this.#owners[findShard(accountId)] ?? null;
    return owner !== null && performance.now() >= (this.#silentUntil.get(owner.id) ?? 0) ? owner : null;
  }

  async #read(): Promise<void> {
    if (this.#reading) {
      this.#reading.again = true;
      return;
    }
    const reading = { again: true };
    this.#reading = reading;
    while (reading.again) {
      reading.again = false;
      const read = repeatOverLostConnections(() => readCluster(this.#options.pool));
      const state = await read.catch(() => ({ peers: [], shards: [] }));
      const live = new Map(state.peers.filter(({ expiresInMs }) => expiresInMs > 0).map((peer) => [peer.id, peer]));
      this.#owners = state.shards.map(([owner]) => (owner === null ? null : (live.get(owner) ?? null)));
      for (const id of this.#silentUntil.keys()) if (!live.has(id)) this.#silentUntil.delete(id);
    }
    this.#reading = null;
  }

  #post(owner: Peer, notice: string): void {
    const outbox = this.#outboxes.get(owner.id) ?? { notices: new Set(), sending: null };
    this.#outboxes.set(owner.id, outbox);
    outbox.notices.add(notice);
    outbox.sending ??= this.#empty(owner, outbox);
  }

  /** Notices that come while a request is under way join the next one. */
  async #empty(owner: Peer, outbox: Outbox): Promise<void> {
    // Notices of the same group of requests join this one.
    await new Promise(setImmediate);
    while (outbox.notices.size > 0) {
      const notices = [...outbox.notices].slice(0, DELIVERY_NOTICES_MAX);
      for (const notice of notices) outbox.notices.delete(notice);
      if (await this.#sendTo(owner, notices)) continue;
      await this.#notify(notices);
    }
    this.#outboxes.delete(owner.id);
  }

  /** @returns whether the owner took them */
  async #sendTo(owner: Peer, notices: readonly string[]): Promise<boolean> {
    if (performance.now() < (this.#silentUntil.get(owner.id) ?? 0)) return false;
    const status = await this.#request(owner, notices).catch(() => null);
    // Another status comes from a supervisor of an older release, which knows no such request.
    if (status !== 204 && status !== 409) this.#silentUntil.set(owner.id, performance.now() + SILENT_MS);
    return status === 204;
  }

  #request({ address, peerKey }: Peer, notices: readonly string[]): Promise<number | undefined> {
    const path = `${PEER_DELIVERIES}?${new URLSearchParams(notices.map((notice) => ['notice', notice]))}`;
    const request = { method: 'POST', path, hops: 1 };
    const signature = signRequest(Buffer.from(peerKey, 'base64'), request, Date.now());
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    const sent = openRequest(`${address}${path}`, {
      method: request.method,
      agent: this.#agent,
      headers: { [PEER_HEADER]: signature },
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    sent.setNoDelay(true);
    sent.once('response', (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    sent.on('error', reject);
    sent.end();
    return promise;
  }

  /** If this fails too, the owner finds the deliveries when it looks for waiting ones by itself. */
  async #notify(notices: readonly string[]): Promise<void> {
    const { pool, onError } = this.#options;
    await notifyDeliveryNotices(pool, notices).catch(onError);
  }
}
