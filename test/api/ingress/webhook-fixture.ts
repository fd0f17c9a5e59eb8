/** The webhook address on a port of its own, over a real database and a real disk. */
import { request as httpRequest, type RequestOptions } from 'node:http';
import type { Pool } from 'pg';
import type { WebhookDeps } from '../../../api/ingress/webhooks.ts';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { type Channel, insertChannel } from '../../../db/channels/channels.ts';
import { inTransaction, openPool } from '../../../db/postgres/pool.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { serveWebhooks } from './serving.ts';

export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
}
export interface WebhookFixture {
  readonly pool: Pool;
  readonly url: string;
  readonly dataDir: string;
  readonly port: number;
  readonly errors: Error[];
  connect(): Promise<Channel>;
  send(path: string, options?: RequestOptions & { body?: Buffer | string }): Promise<Answered>;
}
export interface WebhookFixtureOptions {
  readonly config?: Partial<WebhookDeps['config']>;
  readonly registrations?: unknown;
  /** In place of the test's database, where it is to be away. */
  readonly pool?: Pool;
}

export async function openWebhookFixture(t: Teardown, options: WebhookFixtureOptions = {}): Promise<WebhookFixture> {
  const { pool, url } = await testDatabase(t);
  const dataDir = await temporaryFolder(t);
  const errors: Error[] = [];
  const onError = (error: Error) => void errors.push(error);
  const port = await serveWebhooks(t, {
    pool,
    dataDir,
    onError,
    ...(options.config ? { config: options.config } : {}),
    ...(options.pool ? { intakePool: options.pool } : {}),
  });
  const accountId = await installChannelPlugin(pool, options.registrations);
  return {
    pool,
    url,
    dataDir,
    port,
    errors,
    connect: () => inTransaction(pool, (tx) => insertChannel(tx, { installationId: 'i', accountId, name: 'inbox' })),
    send: (path, { body, ...rest } = {}) => send({ port, path, agent: false, ...rest }, body),
  };
}

async function installChannelPlugin(pool: Pool, registrations: unknown): Promise<string> {
  const { id } = await findOrCreateAccount(pool, 'ann');
  await pool.query(`INSERT INTO plugins (id, owner_id, slug, display_name) VALUES ('p', $1, 'p', 'P')`, [id]);
  await pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
       capabilities, added_capabilities, discovered, registrations)
     VALUES ('v', 'p', '1.0.0', 'published', '', '', 0, '{}', '', '{}', '{}', '{}', $1)`,
    [JSON.stringify(registrations ?? { channel: { receive: true, send: false, handshake: false, handshakeOn: null } })],
  );
  await pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities,
       status, hook_order) VALUES ('i', $1, 'p', 'Latest', 'v', '{}', 'ready', 1)`,
    [id],
  );
  return id;
}

export function send(options: RequestOptions, body?: Buffer | string): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', method: 'POST', ...options }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      const text = Buffer.concat(chunks).toString();
      const isJson = String(response.headers['content-type']).includes('json') && text !== '';
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: isJson ? JSON.parse(text) : text });
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** A pool that leads nowhere: every connection is refused. */
export function awayPool(t: Teardown): Pool {
  const database = openPool('postgres://user@127.0.0.1:1/database', {
    name: 'bulkhead-away',
    connections: 2,
    onError: () => undefined,
  });
  t.teardown(() => database.close());
  return database.pool;
}
