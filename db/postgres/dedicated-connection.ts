/** A connection outside the pool, without the pool's timeouts: for work that takes minutes or holds a session lock. */
import { Client, type ClientConfig } from 'pg';

/**
 * Opens a connection, runs `work` with it and closes it.
 *
 * @param url a `postgres://` address
 */
export async function withConnection<T>(
  url: string,
  config: Pick<ClientConfig, 'application_name' | 'connectionTimeoutMillis'>,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client({ connectionString: url, ...config });
  // A lost connection rejects the query. Without a listener, the error event would end the process as well.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
