/**
 * NOTIFY channels between API and supervisors. A notification is sent with the sender's commit and carries an id only:
 * the receiver reads the row.
 */
import type { ClientBase, Pool } from 'pg';
import type { Listener, Subscription } from './listener.ts';

const INSTALLATIONS = 'bulkhead_installations';
const RESTARTS = 'bulkhead_restarts';
const SESSIONS = 'bulkhead_sessions';
const INTROSPECTION_ANSWERS = 'bulkhead_introspected';
const DELIVERIES = 'bulkhead_deliveries';
const ADDRESSES = 'bulkhead_addresses';
const HANDSHAKE_REQUESTS = 'bulkhead_handshakes';
const HANDSHAKE_ANSWERS = 'bulkhead_handshaken';

/**
 * Notifies supervisors that an installation was created, changed in any way, or is about to be deleted (call it before
 * the row is gone).
 *
 * @param tx the transaction that changes the installation
 */
export async function notifyInstallationChanged(tx: ClientBase | Pool, installationId: string): Promise<void> {
  await tx.query(`SELECT pg_notify($1, account_id || ' ' || id) FROM installations WHERE id = $2`, [
    INSTALLATIONS,
    installationId,
  ]);
}

/** Notifies supervisors of every installation of a plugin: after a publish, a yank or a block. */
export async function notifyPluginChanged(tx: ClientBase | Pool, pluginId: string): Promise<void> {
  await tx.query(`SELECT pg_notify($1, account_id || ' ' || id) FROM installations WHERE plugin_id = $2`, [
    INSTALLATIONS,
    pluginId,
  ]);
}

interface InstallationChange {
  readonly accountId: string;
  readonly installationId: string;
}

/** `onEverything` runs after a reconnect, here and below: notifications may have been missed. */
export function subscribeToInstallations(
  listener: Listener,
  onChange: (change: InstallationChange) => void,
  onEverything: () => void,
): Promise<Subscription> {
  const onNotification = (payload: string) => {
    const [accountId = '', installationId = ''] = payload.split(' ');
    onChange({ accountId, installationId });
  };
  return listener.listen(INSTALLATIONS, { onNotification, onReconnect: onEverything });
}

/** Asks supervisors to stop an installation's child. The next call or event starts a new one. */
export async function notifyRestartRequested(tx: ClientBase | Pool, installationId: string): Promise<void> {
  await tx.query('SELECT pg_notify($1, $2)', [RESTARTS, installationId]);
}

/** A restart that is missed during a reconnect is lost: the operator requests it again. */
export function subscribeToRestarts(
  listener: Listener,
  onRestart: (installationId: string) => void,
): Promise<Subscription> {
  return listener.listen(RESTARTS, { onNotification: onRestart, onReconnect: () => undefined });
}

/** Notifies the API process that waits for an introspection. */
export async function notifyIntrospectionAnswered(tx: ClientBase | Pool, introspectionId: string): Promise<void> {
  await tx.query('SELECT pg_notify($1, $2)', [INTROSPECTION_ANSWERS, introspectionId]);
}

export function subscribeToIntrospections(
  listener: Listener,
  onAnswer: (introspectionId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(INTROSPECTION_ANSWERS, { onNotification: onAnswer, onReconnect: onEverything });
}

/** Notifies supervisors that a session was cleared or deleted. */
export async function notifySessionChanged(tx: ClientBase | Pool, sessionId: string): Promise<void> {
  await tx.query('SELECT pg_notify($1, $2)', [SESSIONS, sessionId]);
}

export async function notifySessionsDeleted(tx: ClientBase | Pool, sessionIds: readonly string[]): Promise<void> {
  await tx.query('SELECT pg_notify($1, id) FROM unnest($2::text[]) AS deleted(id)', [SESSIONS, sessionIds]);
}

export function subscribeToSessions(
  listener: Listener,
  onChange: (sessionId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(SESSIONS, { onNotification: onChange, onReconnect: onEverything });
}

/** Ends a statement that writes deliveries: notifies supervisors. `query` selects `channel_id`. */
export const notifyDeliveriesSql = (query: string): string =>
  `SELECT pg_notify('${DELIVERIES}', channel_id) FROM (${query}) AS written`;

export function subscribeToDeliveries(
  listener: Listener,
  onChannel: (channelId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(DELIVERIES, { onNotification: onChannel, onReconnect: onEverything });
}

/** Ends a statement that adds or retires addresses: notifies API processes. `query` selects `routing_id`. */
export const notifyAddressesSql = (query: string): string =>
  `SELECT pg_notify('${ADDRESSES}', routing_id) FROM (${query}) AS changed`;

export function subscribeToAddresses(
  listener: Listener,
  onAddress: (routingId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(ADDRESSES, { onNotification: onAddress, onReconnect: onEverything });
}

/** Ends a statement that requests a handshake: notifies supervisors. `query` selects `id`. */
export const notifyHandshakeRequestedSql = (query: string): string =>
  `SELECT pg_notify('${HANDSHAKE_REQUESTS}', id) FROM (${query}) AS requested`;

/** A request that is missed during a reconnect is lost: its vendor no longer waits. */
export function subscribeToHandshakeRequests(
  listener: Listener,
  onRequest: (id: string) => void,
): Promise<Subscription> {
  return listener.listen(HANDSHAKE_REQUESTS, { onNotification: onRequest, onReconnect: () => undefined });
}

/** Ends a statement that answers a handshake: notifies the API process that waits. `query` selects `id`. */
export const notifyHandshakeAnsweredSql = (query: string): string =>
  `SELECT pg_notify('${HANDSHAKE_ANSWERS}', id) FROM (${query}) AS answered`;

export function subscribeToHandshakeAnswers(
  listener: Listener,
  onAnswer: (id: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(HANDSHAKE_ANSWERS, { onNotification: onAnswer, onReconnect: onEverything });
}
