/**
 * Caches the channel of each webhook address until a notification, so that addresses resolve while the database is
 * unavailable: also those that were never called here.
 */
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { type Address, type FoundAddress, listAddresses, ROUTING_ID } from '../../db/channels/channels.ts';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import type { Listener } from '../../db/postgres/listener.ts';
import { subscribeToAddresses, subscribeToInstallations } from '../../db/postgres/notifications.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import { readOrLastKnown } from '../../service/storage/last-known.ts';
import { AddressLookups } from './address-lookups.ts';
import { UnknownAddressLimiter } from './unknown-address-limiter.ts';

const KNOWN_MAX = 50_000;
/** Retired addresses that are cached. Vendors send to few of them. */
const RETIRED_MAX = 1_000;
/** Addresses read by one statement. */
const PAGE = 5_000;
/** Lifetime of addresses in the cache, in case a notification was lost. Milliseconds. */
const KNOWN_MS = 60 * SECOND;
/** A vendor waits while an address is looked up again. If the database seems away, not much of the time that it allows. Milliseconds. */
const ANSWER_MS = { connected: 2 * SECOND, away: SECOND / 4 };
/** Key of the look-ups for notifications of addresses whose account is not known. */
const NOTIFIED = 'notified';

interface Cached<Found> {
  readonly found: Found;
  until: number;
}

export class Addresses {
  readonly #pool: Pool;
  readonly #listener: Listener;
  /** The addresses in use. Without unknown and retired ones: anybody may ask for any number of those. */
  readonly #known = new LRUCache<string, Cached<Address>>({
    max: KNOWN_MAX,
    dispose: ({ found }, routingId) => this.#forget(found, routingId),
  });
  readonly #retired = new LRUCache<string, Cached<'retired'>>({ max: RETIRED_MAX });
  /** The cached addresses of each installation. */
  readonly #byInstallation = new Map<string, Set<string>>();
  /** Number of cached addresses of each account. */
  readonly #ofAccount = new AmountsByKey();
  readonly #lookups: AddressLookups;
  readonly #unknown = new UnknownAddressLimiter();
  readonly #onError: (error: Error) => void;
  /** Number of changes of which this process was notified. A row that was read before the last one may be out of date. */
  #changes = 0;
  #loading: Promise<void> | null = null;
  /** Whether a connection was made after the last reading of all addresses began: it may have missed what was added meanwhile, or fail. */
  #isLoadDue = false;
  #isClosed = false;

  private constructor(pool: Pool, listener: Listener, onError: (error: Error) => void) {
    this.#pool = pool;
    this.#listener = listener;
    this.#onError = onError;
    this.#lookups = new AddressLookups({
      pool,
      countChanges: () => this.#changes,
      store: (routingId, found, changes) => this.#store(routingId, found, changes),
    });
  }

  static async open(pool: Pool, listener: Listener, onError: (error: Error) => void): Promise<Addresses> {
    const addresses = new Addresses(pool, listener, onError);
    const reloadAll = () => {
      addresses.#expire([...addresses.#known.keys(), ...addresses.#retired.keys()]);
      addresses.#loadAll();
    };
    await subscribeToAddresses(listener, (routingId) => addresses.#reload(routingId), reloadAll);
    // A change of version may change the handshake. After a reconnect, `reloadAll` has been called already.
    await subscribeToInstallations(
      listener,
      ({ installationId }) => addresses.#expire(addresses.#byInstallation.get(installationId) ?? []),
      () => undefined,
    );
    addresses.#loadAll();
    return addresses;
  }

  /** Waits for the reads under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#loading;
    await this.#lookups.close();
  }

  /**
   * @param network the client's network, whose requests to unknown and retired addresses are limited
   * @throws Problem `rate_limited` and `unavailable` for addresses that are retired, or neither cached nor being looked up
   * @throws the database's error when it is unavailable and the address is not cached
   */
  async find(routingId: string, network: string): Promise<FoundAddress> {
    if (!ROUTING_ID.test(routingId)) return 'unknown';
    const known = this.#known.get(routingId);
    if (known) return this.#refresh(known, routingId, network);
    const retired = this.#retired.get(routingId);
    if (retired) return this.#unknown.run(network, () => this.#refresh(retired, routingId, network));
    // To join a look-up costs nothing, so the limiter counts a burst to one address as one look-up.
    const joined = this.#lookups.join(routingId);
    return joined ?? this.#unknown.run(network, () => this.#lookups.find(network, routingId));
  }

  /** Returns a cached address, or looks it up again if it has expired. */
  async #refresh(cached: Cached<Address | 'retired'>, routingId: string, network: string): Promise<FoundAddress> {
    const isConnected = this.#listener.isConnected();
    if (cached.until > performance.now() && isConnected) return cached.found;
    const reading = this.#lookups.find(this.findCachedAccount(routingId) ?? network, routingId);
    // If the address was retired meanwhile, its request is stored as a dead letter.
    return readOrLastKnown(reading, cached.found, isConnected ? ANSWER_MS.connected : ANSWER_MS.away);
  }

  /** The account of a cached address, which may be out of date. Null: it is not cached, or retired. */
  findCachedAccount(routingId: string): string | null {
    return this.#known.peek(routingId)?.found.accountId ?? null;
  }

  /** Whether an address of another account is cached. */
  hasOtherAccount(accountId: string): boolean {
    return this.#ofAccount.size > (this.#ofAccount.get(accountId) > 0 ? 1 : 0);
  }

  /** Reads the addresses in use, as many as fit, in the background. Those known already stay as they are. */
  #loadAll(): void {
    this.#isLoadDue = true;
    this.#loading ??= this.#loadWhileDue().finally(() => {
      this.#loading = null;
    });
  }

  async #loadWhileDue(): Promise<void> {
    while (this.#isLoadDue && !this.#isClosed) {
      this.#isLoadDue = false;
      try {
        await this.#loadPages();
      } catch (error) {
        // Tried again at the next connection, which may be there already.
        if (classifyDatabaseError(error) === null) this.#onError(error as Error);
      }
    }
  }

  async #loadPages(): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined && !this.#isClosed; ) {
      const changes = this.#changes;
      const page = await listAddresses(this.#pool, after, Math.min(PAGE, KNOWN_MAX - this.#known.size));
      for (const { routingId, address } of page)
        if (!this.#known.has(routingId) && !this.#retired.has(routingId)) this.#store(routingId, address, changes);
      after = page.at(-1)?.routingId;
    }
  }

  #reload(routingId: string): void {
    this.#expire([routingId]);
    this.#lookups.find(this.findCachedAccount(routingId) ?? NOTIFIED, routingId).catch(() => undefined);
  }

  /** @param changes how many were known before it was read */
  #store(routingId: string, found: FoundAddress, changes: number): void {
    const isCurrent = changes === this.#changes;
    if (!isCurrent && (this.#known.has(routingId) || this.#retired.has(routingId))) return;
    const until = isCurrent ? performance.now() + KNOWN_MS : 0;
    if (found === 'unknown' || found === 'retired') this.#known.delete(routingId);
    else {
      this.#known.set(routingId, { found, until });
      const { accountId, installationId } = found;
      this.#ofAccount.add(accountId);
      this.#byInstallation.set(installationId, (this.#byInstallation.get(installationId) ?? new Set()).add(routingId));
    }
    if (found === 'retired') this.#retired.set(routingId, { found, until });
    else this.#retired.delete(routingId);
  }

  #forget({ accountId, installationId }: Address, routingId: string): void {
    this.#ofAccount.subtract(accountId);
    const cached = this.#byInstallation.get(installationId);
    if (cached?.delete(routingId) && cached.size === 0) this.#byInstallation.delete(installationId);
  }

  /** Marks entries as expired but keeps them, for use while the database is unavailable. */
  #expire(routingIds: Iterable<string>): void {
    this.#changes += 1;
    for (const routingId of routingIds) {
      const cached = this.#known.peek(routingId) ?? this.#retired.peek(routingId);
      if (cached) cached.until = 0;
    }
  }
}
