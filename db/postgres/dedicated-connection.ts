/** A connection beside the pool, without its limits of time: for work that honestly takes minutes, or holds a session's lock. */
import { Client, type ClientConfig } from 'pg';

/**
 * Opens a connection for one piece of work, and closes it afterwards.
 *
 * @param url a `postgres://` address
 * @param config of the connection, as its name in `pg_stat_activity`
 */
export async function withConnection<T>(
  url: string,
  config: Pick<ClientConfig, 'application_name' | 'connectionTimeoutMillis'>,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client({ connectionString: url, ...config });
  // A lost connection shows as a rejected query; unheard, the event would end the process.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
