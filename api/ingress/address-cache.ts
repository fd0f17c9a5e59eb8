/** Where addresses lead, asked once and then known until a notice says otherwise: also while the database is away. */
import type { Pool } from 'pg';
import { type FoundAddress, findAddress, ROUTING_ID } from '../../db/channels/channels.ts';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import type { Listener } from '../../db/postgres/listener.ts';
import { subscribeToAddresses, subscribeToInstallations } from '../../db/postgres/notifications.ts';
import { SECOND } from '../../sdk/contract/limits.ts';

/** Addresses kept; beyond, the one unused for the longest time goes. */
const KNOWN_MAX = 50_000;
/** What is unknown is asked again after this: guesses are cheap to refuse, and a lost notice heals. Milliseconds. */
const UNKNOWN_MS = 5 * SECOND;
/** What is known is asked again after this, for a lost notice. Milliseconds. */
const KNOWN_MS = 60 * SECOND;

interface Known {
  readonly found: FoundAddress;
  until: number;
}

export class Addresses {
  readonly #pool: Pool;
  readonly #listener: Listener;
  readonly #known = new Map<string, Known>();
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
    // Another version may answer other handshakes.
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
   * Where an address leads.
   *
   * @throws the database's error where it is away and the address was never asked for
   */
  async find(routingId: string): Promise<FoundAddress> {
    if (!ROUTING_ID.test(routingId)) return 'unknown';
    const known = this.#known.get(routingId);
    if (known && known.until > performance.now() && this.#listener.isConnected()) return known.found;
    try {
      return await this.#ask(routingId);
    } catch (error) {
      // What it was last is the best that is known; a request for a retired address is then delivered to nobody.
      if (known && classifyDatabaseError(error) !== null) return known.found;
      throw error;
    }
  }

  #ask(routingId: string): Promise<FoundAddress> {
    const asking = this.#asking.get(routingId);
    if (asking) return asking;
    const asked = findAddress(this.#pool, routingId)
      .then((found) => this.#keep(routingId, found))
      .finally(() => this.#asking.delete(routingId));
    this.#asking.set(routingId, asked);
    return asked;
  }

  #keep(routingId: string, found: FoundAddress): FoundAddress {
    this.#known.delete(routingId);
    this.#known.set(routingId, { found, until: performance.now() + (found === 'unknown' ? UNKNOWN_MS : KNOWN_MS) });
    const [oldest] = this.#known.keys();
    if (this.#known.size > KNOWN_MAX && oldest !== undefined) this.#known.delete(oldest);
    return found;
  }

  /** Kept, to be asked again: while the database is away, an old answer is better than none. */
  #expire(concerns: (routingId: string, found: FoundAddress) => boolean): void {
    for (const [routingId, known] of this.#known) if (concerns(routingId, known.found)) known.until = 0;
  }
}
