/**
 * NOTIFY channels between API and supervisors. A notification is sent with the sender's commit and carries an id only:
 * the receiver reads the row.
 */

import type { Listener, Subscription } from './listener.ts';
import type { Queryable } from './rows.ts';

const ACCOUNTS = 'bulkhead_accounts';
const INSTALLATIONS = 'bulkhead_installations';
const RESTARTS = 'bulkhead_restarts';
const SESSIONS = 'bulkhead_sessions';
const INTROSPECTION_ANSWERS = 'bulkhead_introspected';
const DELIVERIES = 'bulkhead_deliveries';
const SHARDS = 'bulkhead_shards';
const SPOOLS = 'bulkhead_spools';
const ADDRESSES = 'bulkhead_addresses';
const HANDSHAKE_REQUESTS = 'bulkhead_handshakes';
const HANDSHAKE_ANSWERS = 'bulkhead_handshaken';

/** Subscribes to a channel. `onEverything` runs after a reconnect: notifications may have been missed. */
export const subscribeTo =
  (channel: string) =>
  (
    listener: Listener,
    onNotification: (id: string) => void,
    onEverything: () => void = () => undefined,
  ): Promise<Subscription> =>
    listener.listen(channel, { onNotification, onReconnect: onEverything });

const notify =
  (channel: string) =>
  async (tx: Queryable, id: string): Promise<void> =>
    void (await tx.query('SELECT pg_notify($1, $2)', [channel, id]));

/** Ends a statement that writes rows. `query` selects what the notification carries. */
const notifySql =
  (channel: string, text: string) =>
  (query: string): string =>
    `SELECT pg_notify('${channel}', ${text}) FROM (${query}) AS written`;

function notifyInstallationsWhere<Id = string>(condition: string) {
  const sql = `SELECT pg_notify($1, account_id || ' ' || id) FROM installations WHERE ${condition}`;
  return async (tx: Queryable, id: Id): Promise<void> => void (await tx.query(sql, [INSTALLATIONS, id]));
}

/** Subscribes to notifications of an id and its account. The channel determines which of the two comes first. */
const subscribeToPairs =
  (channel: string) =>
  (listener: Listener, onPair: (first: string, second: string) => void, onEverything?: () => void) =>
    subscribeTo(channel)(
      listener,
      (payload) => {
        const [first = '', second = ''] = payload.split(' ');
        onPair(first, second);
      },
      onEverything,
    );

/** Notifies every process that the rights or tokens of an account changed. */
export const notifyAccountChanged = notify(ACCOUNTS);
/** Notifies every process that tokens of any account may have changed. */
export const notifyAllAccountsChanged = (tx: Queryable): Promise<void> => notifyAccountChanged(tx, '');

/** `onEverything` runs after a reconnect, and when any account may have changed. */
export const subscribeToAccounts = (
  listener: Listener,
  onAccount: (accountId: string) => void,
  onEverything: () => void,
): Promise<Subscription> =>
  subscribeTo(ACCOUNTS)(listener, (id) => (id === '' ? onEverything() : onAccount(id)), onEverything);

/**
 * Notifies supervisors that an installation was created, changed in any way, or is about to be deleted (call it before
 * the row is gone).
 *
 * @param tx the transaction that changes the installation
 */
export const notifyInstallationChanged = notifyInstallationsWhere('id = $2');
/** Notifies supervisors of several installations, in one statement. */
export const notifyInstallationsChanged = notifyInstallationsWhere<readonly string[]>('id = ANY ($2)');
/** As `notifyInstallationChanged`, unless the transaction has left the row as it was. */
export const notifyIfInstallationChanged = notifyInstallationsWhere('id = $2 AND xmin = pg_current_xact_id()::xid');
/** Notifies supervisors of every installation of a plugin: after a publish, a yank or a block. */
export const notifyPluginChanged = notifyInstallationsWhere('plugin_id = $2');
/** Notifies supervisors of every installation of an account: after a suspension or its end. */
export const notifyInstallationsOfAccount = notifyInstallationsWhere('account_id = $2');

interface InstallationChange {
  readonly accountId: string;
  readonly installationId: string;
}

export const subscribeToInstallations = (
  listener: Listener,
  onChange: (change: InstallationChange) => void,
  onEverything: () => void,
): Promise<Subscription> =>
  subscribeToPairs(INSTALLATIONS)(
    listener,
    (accountId, installationId) => onChange({ accountId, installationId }),
    onEverything,
  );

/** Asks supervisors to stop an installation's child. The next call or event starts a new one. */
export const notifyRestartRequested = notify(RESTARTS);
/** A restart that is missed during a reconnect is lost: the operator requests it again. */
export const subscribeToRestarts = subscribeTo(RESTARTS);

/** Notifies the API process that waits for an introspection. */
export const notifyIntrospectionAnswered = notify(INTROSPECTION_ANSWERS);
export const subscribeToIntrospections = subscribeTo(INTROSPECTION_ANSWERS);

/** Notifies supervisors that a session was cleared or deleted. */
export const notifySessionChanged = notify(SESSIONS);
export async function notifySessionsDeleted(tx: Queryable, sessionIds: readonly string[]): Promise<void> {
  await tx.query('SELECT pg_notify($1, id) FROM unnest($2::text[]) AS deleted(id)', [SESSIONS, sessionIds]);
}
export const subscribeToSessions = subscribeTo(SESSIONS);

/** Notifies the owner of an account of changed deliveries of a channel. `query` selects `channel_id` and `account_id`. */
export const notifyDeliveriesSql = notifySql(DELIVERIES, `channel_id || ' ' || account_id`);
/** Notifies the owner of new deliveries and names their queue: `query` also selects `installation_id` and `direction`. */
export const notifyNewDeliveriesSql = notifySql(
  DELIVERIES,
  `concat_ws(' ', channel_id, account_id, installation_id, direction)`,
);
export interface DeliveryNotice {
  readonly channelId: string;
  readonly accountId: string;
  /** The queue of new deliveries; null: any queue of the channel may have changed. */
  readonly queue: { readonly installationId: string; readonly direction: 'in' | 'out' } | null;
}
export const subscribeToDeliveries = (
  listener: Listener,
  onNotice: (notice: DeliveryNotice) => void,
): Promise<Subscription> => subscribeTo(DELIVERIES)(listener, (payload) => onNotice(parseDeliveryNotice(payload)));

/** As it is sent, also by other ways than a notification. */
export const formatDeliveryNotice = ({ channelId, accountId, queue }: DeliveryNotice): string =>
  [channelId, accountId, ...(queue ? [queue.installationId, queue.direction] : [])].join(' ');

export function parseDeliveryNotice(text: string): DeliveryNotice {
  const [channelId = '', accountId = '', installationId, direction] = text.split(' ');
  const isNew = installationId !== undefined && (direction === 'in' || direction === 'out');
  return { channelId, accountId, queue: isNew ? { installationId, direction } : null };
}

/** Limit of one request or statement with notices. */
export const DELIVERY_NOTICES_MAX = 64;

export async function notifyDeliveryNotices(db: Queryable, notices: readonly string[]): Promise<void> {
  await db.query('SELECT pg_notify($1, notice) FROM unnest($2::text[]) AS given(notice)', [DELIVERIES, notices]);
}

/** Notifies API processes that an address was added or retired. */
export const notifyAddressesSql = notifySql(ADDRESSES, 'routing_id');
export const subscribeToAddresses = subscribeTo(ADDRESSES);

/** Notifies the owner of an account that an API process requests a handshake. `query` selects `id` and `account_id`. */
export const notifyHandshakeRequestedSql = notifySql(HANDSHAKE_REQUESTS, `id || ' ' || account_id`);
/** Passes the id first. A request that is missed during a reconnect is lost: its vendor no longer waits. */
export const subscribeToHandshakeRequests = subscribeToPairs(HANDSHAKE_REQUESTS);

/** Notifies the API process that waits for a handshake. */
export const notifyHandshakeAnsweredSql = notifySql(HANDSHAKE_ANSWERS, 'id');
export const subscribeToHandshakeAnswers = subscribeTo(HANDSHAKE_ANSWERS);

/** Notifies supervisors that a shard has another owner, or that a supervisor came or went. */
export const notifyShardsChanged = async (db: Queryable): Promise<void> => notify(SHARDS)(db, '');
export const subscribeToShards = subscribeTo(SHARDS);

/** Notifies supervisors to look for waiting deliveries: some were unsettled, because of spools, or were never announced. */
export const notifySpoolsSettled = async (db: Queryable): Promise<void> => notify(SPOOLS)(db, '');
export const subscribeToSpools = subscribeTo(SPOOLS);
