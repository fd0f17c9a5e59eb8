/** The services that routes and resources of the API use. `compose.ts` and tests create them. */
import type { Pool } from 'pg';
import type { Blobs } from '../db/files/blobs.ts';
import type { SecretKeys } from '../db/files/secrets.ts';
import type { Introspection, NewIntrospection } from '../db/jobs/introspections.ts';
import type { Queues } from '../db/jobs/queues.ts';
import type { Listener } from '../db/postgres/listener.ts';
import type { Bundler } from './package/bundler.ts';

/** Reads the registrations of a bundle in a jailed child. @throws Problem `unavailable` when no supervisor answers */
export type Introspect = (request: NewIntrospection) => Promise<Introspection>;

export interface Services {
  readonly pool: Pool;
  readonly listener: Listener;
  readonly queues: Queues;
  readonly blobs: Blobs;
  readonly keys: SecretKeys;
  readonly bundler: Bundler;
  readonly introspect: Introspect;
  /** Waits until no update of an installation is under way, at most for some seconds. */
  readonly finishUpdate: (installationId: string) => Promise<void>;
  /**
   * Resolves when the supervisor of an account knows of everything that was committed before; at the latest after a second. Null:
   * the supervisors of all accounts.
   */
  readonly catchUp: (accountId: string | null) => Promise<void>;
  /** The base address of webhooks as vendors reach it, without a slash at the end. */
  readonly webhookUrl: string;
  /** Called after a plugin was deleted, because its files may be unused now. */
  readonly onDeleted?: () => void;
}
