/**
 * Notifies the owner of an account of its new deliveries, by a request to the supervisor. A notification of PostgreSQL would
 * wake every process that listens to anything, so it is sent only if the owner is not known or does not answer.
 */
import type { Pool } from 'pg';
import type { NewDelivery } from '../../db/channels/deliveries.ts';
import type { Peer } from '../../db/cluster/supervisors.ts';
import {
  DELIVERY_NOTICES_MAX,
  formatDeliveryNotice,
  notifyDeliveryNotices,
  notifySpoolsSettled,
} from '../../db/postgres/notifications.ts';
import { PEER_DELIVERIES } from '../../service/cluster/peer-signature.ts';
import { within } from '../../service/timing/within.ts';
import { type AccountOwners, OWNER_ANSWER_MS } from '../cluster/account-owners.ts';

interface OwnerNoticesOptions {
  readonly pool: Pool;
  readonly owners: AccountOwners;
  onError(error: Error): void;
}

/** The notices for one supervisor. */
interface Outbox {
  readonly notices: Set<string>;
  sending: Promise<void> | null;
}

export class OwnerNotices {
  readonly #options: OwnerNoticesOptions;
  readonly #outboxes = new Map<number, Outbox>();

  private constructor(options: OwnerNoticesOptions) {
    this.#options = options;
  }

  static async open(options: OwnerNoticesOptions): Promise<OwnerNotices> {
    // A process that was killed may have stored deliveries that it did not announce.
    await notifySpoolsSettled(options.pool).catch(options.onError);
    return new OwnerNotices(options);
  }

  /** Whether the owners of all these deliveries are known and answered the last time. */
  canReach(group: readonly NewDelivery[]): boolean {
    return group.every(({ accountId }) => this.#options.owners.find(accountId) !== null);
  }

  /** Notifies the owners of committed deliveries. Does not wait for them. */
  send(group: readonly NewDelivery[]): void {
    for (const delivery of group) {
      const { channelId, accountId, installationId } = delivery;
      const owner = this.#options.owners.find(accountId);
      const notice = formatDeliveryNotice({ channelId, accountId, queue: { installationId, direction: 'in' } });
      if (owner) this.#post(owner, notice);
      else void this.#notify([notice]);
    }
  }

  /** Resolves when the notices were sent, at most after `OWNER_ANSWER_MS`. */
  async close(): Promise<void> {
    await within(Promise.all([...this.#outboxes.values()].map(({ sending }) => sending)), OWNER_ANSWER_MS);
  }

  #post(owner: Peer, notice: string): void {
    const outbox = this.#outboxes.get(owner.id) ?? { notices: new Set(), sending: null };
    this.#outboxes.set(owner.id, outbox);
    outbox.notices.add(notice);
    outbox.sending ??= this.#empty(owner, outbox);
  }

  /** Notices that come while a request is under way join the next one. */
  async #empty(owner: Peer, outbox: Outbox): Promise<void> {
    // Notices of the same group of deliveries join this request.
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
    const { owners } = this.#options;
    if (owners.isSilent(owner)) return false;
    const path = `${PEER_DELIVERIES}?${new URLSearchParams(notices.map((notice) => ['notice', notice]))}`;
    const status = await owners.request(owner, path);
    // 409: the account moved to another supervisor. Null: no answer. Another status: an older release, which knows no such request.
    if (status !== 204 && status !== 409) owners.silence(owner);
    return status === 204;
  }

  /** If this fails too, the owner finds the deliveries when it looks for waiting ones by itself. */
  async #notify(notices: readonly string[]): Promise<void> {
    const { pool, onError } = this.#options;
    await notifyDeliveryNotices(pool, notices).catch(onError);
  }
}
