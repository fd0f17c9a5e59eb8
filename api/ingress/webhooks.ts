/** Composes the parts of the webhook address. */
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import type { Pool } from 'pg';
import type { NewDelivery } from '../../db/channels/deliveries.ts';
import {
  HANDSHAKE_TIMEOUT_MS,
  type HandshakeReply,
  requestHandshake,
  sweepHandshakes,
} from '../../db/channels/handshakes.ts';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import type { Listener } from '../../db/postgres/listener.ts';
import { asAccount } from '../../db/postgres/shares.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { PlaceLimiter } from '../../service/http/place-limiter.ts';
import { RefusalPace } from '../../service/http/refusal-pace.ts';
import { RepeatedErrors } from '../../service/telemetry/repeated-errors.ts';
import { TokenBuckets } from '../../service/timing/token-bucket.ts';
import { within } from '../../service/timing/within.ts';
import type { AccountOwners } from '../cluster/account-owners.ts';
import type { ApiConfig } from '../config.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { Addresses } from './address-cache.ts';
import { createNetworkReader } from './client-network.ts';
import { DeliveryQuota } from './delivery-quota.ts';
import { IncomingBodies } from './incoming-bodies.ts';
import { createWebhookHandler } from './ingress.ts';
import { Intake } from './intake.ts';
import { OwnerNotices } from './owner-notices.ts';
import { Spool } from './spool.ts';

/**
 * All addresses of an account together get this many times the rate of one. Accounts already take turns in the intake, so
 * this limit only keeps one account from using up the event loop.
 */
const ACCOUNT_RATE_FACTOR = 10;
/** Each waits up to 2.5 s for a plugin and asks the database four times a second, so a plugin that never answers keeps few. */
const HANDSHAKES = { places: 60, verb: 'waiting for', works: 'handshakes', retryAfterS: 1 };

export interface WebhookDeps {
  readonly pool: Pool;
  readonly listener: Listener;
  readonly owners: AccountOwners;
  readonly metrics: Pick<Metrics, 'webhookAnswered'>;
  readonly config: Pick<
    ApiConfig,
    'DATA_DIR' | 'SPOOL_MEGABYTES' | 'WEBHOOKS_PER_SECOND' | 'WEBHOOK_BURST' | 'TRUST_PROXY'
  >;
  /** @param count how often the error occurred since it was last reported, which is at most once a minute */
  onError(error: Error, count: number): void;
  /** Called at each step. A test may stop the step there. */
  faultPoint?(step: string): Promise<void> | undefined;
}
interface Webhooks {
  readonly serve: RequestListener;
  /** Number of requests in memory, and bytes in the spool. */
  load(): { readonly waiting: number; readonly spoolBytes: number };
  /** Number of files in the spool that are kept for an operator. */
  countKept: Spool['countKept'];
  /** Stores all accepted requests. Another process empties the spool. */
  close(): Promise<void>;
}

export async function openWebhooks(deps: WebhookDeps): Promise<Webhooks> {
  const { pool, listener, config } = deps;
  const errors = new RepeatedErrors({ report: deps.onError });
  const onError = errors.add;
  const spool = await Spool.open(join(config.DATA_DIR, 'spool'), config.SPOOL_MEGABYTES * MIB, onError);
  const notices = await OwnerNotices.open({ pool, owners: deps.owners, onError });
  const addresses = await Addresses.open(pool, listener, onError);
  const { faultPoint } = deps;
  const intake = new Intake({ pool, spool, notices, addresses, onError, ...(faultPoint ? { faultPoint } : {}) });
  await sweepHandshakes(pool);
  const { WEBHOOKS_PER_SECOND: perSecond, WEBHOOK_BURST: burst } = config;
  const serve = createWebhookHandler({
    addresses,
    readNetwork: createNetworkReader(config.TRUST_PROXY),
    rateLimits: new TokenBuckets({ perSecond, burst }),
    accountRateLimits: new TokenBuckets({
      perSecond: ACCOUNT_RATE_FACTOR * perSecond,
      burst: ACCOUNT_RATE_FACTOR * burst,
    }),
    quota: new DeliveryQuota(pool, onError),
    bodies: await IncomingBodies.open(join(config.DATA_DIR, 'incoming')),
    intake,
    handshakes: new PlaceLimiter(HANDSHAKES),
    refusals: new RefusalPace(),
    handshake: (delivery) => asAccount(delivery.accountId, () => askPlugin(deps, delivery)),
    answered: deps.metrics.webhookAnswered,
    onError,
  });
  const load = () => ({ waiting: intake.waiting, spoolBytes: spool.bytes });
  const close = async () => {
    await intake.close();
    await notices.close();
    await addresses.close();
    errors.close();
  };
  return { serve, load, countKept: () => spool.countKept(), close };
}

/** Null: there is no answer in time, or the database is away. The request is queued, which needs only the disk. */
async function askPlugin(
  deps: Pick<WebhookDeps, 'pool' | 'listener'>,
  delivery: NewDelivery,
): Promise<HandshakeReply | null> {
  try {
    return (await within(requestHandshake(deps, delivery), HANDSHAKE_TIMEOUT_MS)) ?? null;
  } catch (error) {
    if (classifyDatabaseError(error) === null) throw error;
    return null;
  }
}
