/** A connection outside the pool, without the pool's timeouts: for work that takes minutes or holds a session lock. */
import { Client, type ClientConfig } from 'pg';
import { isPoolerRefusal, POOLER_REFUSAL } from './database-errors.ts';
import { KEEPALIVE, KEEPALIVE_OPTIONS } from './keepalive.ts';

/** Limits that the role may have for a pooler are not meant for it. */
const OPTIONS = `${KEEPALIVE_OPTIONS} -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0`;

/** @param url a `postgres://` address */
export async function withConnection<T>(
  url: string,
  config: Pick<ClientConfig, 'application_name' | 'connectionTimeoutMillis'>,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client({ connectionString: url, ...KEEPALIVE, options: OPTIONS, ...config });
  // A lost connection rejects the query. Without a listener, the error event would end the process as well.
  client.on('error', () => undefined);
  await client.connect().catch((error: Error) => {
    throw isPoolerRefusal(error) ? new Error(POOLER_REFUSAL) : error;
  });
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
