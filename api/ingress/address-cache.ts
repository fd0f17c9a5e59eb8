/**
 * Caches the channel of each webhook address until a notification, so that addresses resolve while the database is
 * unavailable.
 */
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { type FoundAddress, findAddress, ROUTING_ID } from '../../db/channels/channels.ts';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import type { Listener } from '../../db/postgres/listener.ts';
import { subscribeToAddresses, subscribeToInstallations } from '../../db/postgres/notifications.ts';
import { SECOND } from '../../sdk/contract/limits.ts';

/** Maximum number of cached addresses. */
const KNOWN_MAX = 50_000;
/** Lifetime of unknown addresses in the cache; short in case a notification was lost. Milliseconds. */
const UNKNOWN_MS = 5 * SECOND;
/** Lifetime of known addresses in the cache, in case a notification was lost. Milliseconds. */
const KNOWN_MS = 60 * SECOND;

interface Known {
  readonly found: FoundAddress;
  until: number;
}

export class Addresses {
  readonly #pool: Pool;
  readonly #listener: Listener;
  readonly #known = new LRUCache<string, Known>({ max: KNOWN_MAX });
  readonly #asking = new Map<string, Promise<FoundAddress>>();

  private constructor(pool: Pool, listener: Listener) {
    this.#pool = pool;
    this.#listener = listener;
  }

  /** Starts listening for changes. */
  static async open(pool: Pool, listener: Listener): Promise<Addresses> {
    const addresses = new Addresses(pool, listener);
    const expireAll = () => addresses.#expire(() => true);
    await subscribeToAddresses(listener, (routingId) => addresses.#expire((id) => id === routingId), expireAll);
    // A change of version may change the handshake.
    const ofInstallation = (installationId: string) => (_id: string, found: FoundAddress) =>
      typeof found === 'object' && found.installationId === installationId;
    await subscribeToInstallations(
      listener,
      ({ installationId }) => addresses.#expire(ofInstallation(installationId)),
      expireAll,
    );
    return addresses;
  }

  /**
   * Finds the channel of an address.
   *
   * @throws the database's error when it is unavailable and the address is not cached
   */
  async find(routingId: string): Promise<FoundAddress> {
    if (!ROUTING_ID.test(routingId)) return 'unknown';
    const known = this.#known.get(routingId);
    if (known && known.until > performance.now() && this.#listener.isConnected()) return known.found;
    try {
      return await this.#load(routingId);
    } catch (error) {
      // Use the expired entry. If the address was retired meanwhile, its request is stored without a channel and never
      // delivered.
      if (known && classifyDatabaseError(error) !== null) return known.found;
      throw error;
    }
  }

  #load(routingId: string): Promise<FoundAddress> {
    const asking = this.#asking.get(routingId);
    if (asking) return asking;
    const lookup = findAddress(this.#pool, routingId)
      .then((found) => this.#store(routingId, found))
      .finally(() => this.#asking.delete(routingId));
    this.#asking.set(routingId, lookup);
    return lookup;
  }

  #store(routingId: string, found: FoundAddress): FoundAddress {
    this.#known.set(routingId, { found, until: performance.now() + (found === 'unknown' ? UNKNOWN_MS : KNOWN_MS) });
    return found;
  }

  /** Marks entries as expired but keeps them, for use while the database is unavailable. */
  #expire(concerns: (routingId: string, found: FoundAddress) => boolean): void {
    for (const [routingId, known] of this.#known) if (concerns(routingId, known.found)) known.until = 0;
  }
}
