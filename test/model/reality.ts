/** The service's side of one run of the model: accounts and slugs of its own in the common database. */
import type { Pool } from 'pg';
import { recountUsage } from '../../db/accounts/usage.ts';
import { endOrphanedEvents } from '../../db/installations/events.ts';
import { removeInstallation } from '../../db/installations/installation-removal.ts';
import type { ApiFixture, Client } from '../api/api-fixture.ts';
import type { Model } from './reference.ts';

const names = ['ann', 'ben', 'cleo'];

export interface Reality {
  readonly api: ApiFixture;
  /** Prefix of slugs and account names, which no other run has. */
  readonly prefix: string;
  readonly accounts: readonly string[];
  client(account: string): Client;
  /** Notes that a step was made and agreed with the model. */
  count(step: string, status: number): void;
}

/** PostgreSQL breaks the circle when the service's own upkeep holds another of these tables in the same moment. */
const DEADLOCK = '40P01';
const ATTEMPTS = 10;

async function emptyTables(pool: Pool): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await pool.query('TRUNCATE plugins, events, reserved_slugs CASCADE; DELETE FROM pgboss.job');
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== DEADLOCK || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Starts with empty tables, so that what an earlier run broke is not found again in this one. */
export async function openReality(api: ApiFixture, prefix: string, count: Reality['count']): Promise<Reality> {
  await emptyTables(api.pool);
  // TRUNCATE fires no trigger that counts bytes.
  await recountUsage(api.pool);
  const accounts = names.map((name) => `${name}-${prefix}`);
  const clients = new Map(await Promise.all(accounts.map(async (name) => [name, await api.user(name)] as const)));
  const client = (account: string): Client => {
    const found = clients.get(account);
    if (!found) throw new Error(`no account ${account}`);
    return found;
  };
  return { api, prefix, accounts, client, count };
}

/** Performs the work of the supervisor's queue for an uninstalled one. */
export async function removeUninstalled({ api }: Reality, model: Model): Promise<void> {
  for (const one of model.installations) if (one.gone) await removeInstallation(api.pool, api.services.queues, one.id);
  // As a supervisor does every few seconds.
  await endOrphanedEvents(api.pool);
}
