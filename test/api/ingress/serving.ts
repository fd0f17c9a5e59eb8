/** The webhook address on a port of its own. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Pool } from 'pg';
import { AccountOwners } from '../../../api/cluster/account-owners.ts';
import { openWebhooks, type WebhookDeps } from '../../../api/ingress/webhooks.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import type { Teardown } from '../../runner/harness.ts';

export interface Served {
  /** The pool for its queries and notifications. */
  readonly pool: Pool;
  readonly dataDir: string;
  readonly config?: Partial<WebhookDeps['config']>;
  /** Where deliveries go, in place of `pool`. */
  readonly intakePool?: Pool;
  onError?(error: Error): void;
}

/** Serves it until the test ends. @returns its port */
export async function serveWebhooks(t: Teardown, served: Served): Promise<number> {
  const { pool, dataDir, config, intakePool = pool, onError = () => undefined } = served;
  const listener = await openListener(pool, onError);
  t.teardown(() => listener.close());
  const owners = await AccountOwners.open(pool, listener);
  t.teardown(() => owners.close());
  const webhooks = await openWebhooks({
    pool: intakePool,
    listener,
    owners,
    onError,
    metrics: { webhookAnswered: () => undefined },
    config: {
      DATA_DIR: dataDir,
      SPOOL_MEGABYTES: 64,
      WEBHOOKS_PER_SECOND: 100_000,
      WEBHOOK_BURST: 100_000,
      TRUST_PROXY: [],
      ...config,
    },
  });
  const server = createServer(webhooks.serve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await webhooks.close();
  });
  return (server.address() as AddressInfo).port;
}
