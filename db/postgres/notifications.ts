/** What the API tells supervisors, and supervisors the API, the moment it commits: only "look again", never data. */
import type { ClientBase, Pool } from 'pg';
import type { Listener, Subscription } from './listener.ts';

const INSTALLATIONS = 'bulkhead_installations';
const RESTARTS = 'bulkhead_restarts';
const SESSIONS = 'bulkhead_sessions';
const INTROSPECTED = 'bulkhead_introspected';
const DELIVERIES = 'bulkhead_deliveries';
const ADDRESSES = 'bulkhead_addresses';
const HANDSHAKES = 'bulkhead_handshakes';
const HANDSHAKEN = 'bulkhead_handshaken';

/**
 * Tells every supervisor that an installation changed in any way: new, gone, another version, settings, grants, order,
 * pause. Sent with the caller's commit, and not at all when it rolls back. Before a row is deleted, not after.
 *
 * @param tx the transaction that changes the installation
 */
export async function notifyInstallationChanged(tx: ClientBase | Pool, installationId: string): Promise<void> {
  await tx.query(`SELECT pg_notify($1, account_id || ' ' || id) FROM installations WHERE id = $2`, [
    INSTALLATIONS,
    installationId,
  ]);
}

/** Announces all installations that run or could run a plugin's versions: after a publish, a yank or a block. */
export async function notifyPluginChanged(tx: ClientBase | Pool, pluginId: string): Promise<void> {
  await tx.query(`SELECT pg_notify($1, account_id || ' ' || id) FROM installations WHERE plugin_id = $2`, [
    INSTALLATIONS,
    pluginId,
  ]);
}

export interface InstallationChange {
  readonly accountId: string;
  readonly installationId: string;
}

/** Subscribes to changes of installations. `onEverything` follows a lost connection: notices may have been missed. */
export function subscribeToInstallations(
  listener: Listener,
  onChange: (change: InstallationChange) => void,
  onEverything: () => void,
): Promise<Subscription> {
  const onNotice = (payload: string) => {
    const [accountId = '', installationId = ''] = payload.split(' ');
    onChange({ accountId, installationId });
  };
  return listener.listen(INSTALLATIONS, { onNotice, onReconnect: onEverything });
}

/** Tells every supervisor to end an installation's child; a call or an event starts it anew. */
export async function notifyRestartRequested(tx: ClientBase | Pool, installationId: string): Promise<void> {
  await tx.query('SELECT pg_notify($1, $2)', [RESTARTS, installationId]);
}

/** Subscribes to restarts. One missed in a reconnect is the operator's to ask for again. */
export function subscribeToRestarts(
  listener: Listener,
  onRestart: (installationId: string) => void,
): Promise<Subscription> {
  return listener.listen(RESTARTS, { onNotice: onRestart, onReconnect: () => undefined });
}

/** Tells the asking API process that its introspection is answered. */
export async function notifyIntrospectionAnswered(tx: ClientBase | Pool, introspectionId: string): Promise<void> {
  await tx.query('SELECT pg_notify($1, $2)', [INTROSPECTED, introspectionId]);
}

/** Subscribes to answered introspections. */
export function subscribeToIntrospections(
  listener: Listener,
  onAnswer: (introspectionId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(INTROSPECTED, { onNotice: onAnswer, onReconnect: onEverything });
}

/** Tells every supervisor that a session was cleared or deleted. */
export async function notifySessionChanged(tx: ClientBase | Pool, sessionId: string): Promise<void> {
  await tx.query('SELECT pg_notify($1, $2)', [SESSIONS, sessionId]);
}

/** Tells every supervisor that sessions were deleted. */
export async function notifySessionsDeleted(tx: ClientBase | Pool, sessionIds: readonly string[]): Promise<void> {
  await tx.query('SELECT pg_notify($1, id) FROM unnest($2::text[]) AS gone(id)', [SESSIONS, sessionIds]);
}

/** Subscribes to sessions that were cleared or deleted. */
export function subscribeToSessions(
  listener: Listener,
  onChange: (sessionId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(SESSIONS, { onNotice: onChange, onReconnect: onEverything });
}

/** SQL that tells supervisors of new deliveries, to be the end of the statement that writes them. `of` selects `channel_id`. */
export const notifyDeliveriesSql = (of: string): string =>
  `SELECT pg_notify('${DELIVERIES}', channel_id) FROM (${of}) AS told`;

/** Subscribes to new deliveries. */
export function subscribeToDeliveries(
  listener: Listener,
  onChannel: (channelId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(DELIVERIES, { onNotice: onChannel, onReconnect: onEverything });
}

/** SQL that tells every API process that addresses are new or retired. `of` selects `routing_id`. */
export const notifyAddressesSql = (of: string): string =>
  `SELECT pg_notify('${ADDRESSES}', routing_id) FROM (${of}) AS told`;

/** Subscribes to addresses that are new or retired. */
export function subscribeToAddresses(
  listener: Listener,
  onAddress: (routingId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(ADDRESSES, { onNotice: onAddress, onReconnect: onEverything });
}

/** SQL that asks the supervisors for a handshake. `of` selects `id`. */
export const notifyHandshakeRequestedSql = (of: string): string =>
  `SELECT pg_notify('${HANDSHAKES}', id) FROM (${of}) AS told`;

/** Subscribes to handshakes that are asked for. One missed in a reconnect is not looked for: its vendor has gone. */
export function subscribeToHandshakeRequests(listener: Listener, onAsked: (id: string) => void): Promise<Subscription> {
  return listener.listen(HANDSHAKES, { onNotice: onAsked, onReconnect: () => undefined });
}

/** SQL that tells the asking API process that its handshake is answered. `of` selects `id`. */
export const notifyHandshakeAnsweredSql = (of: string): string =>
  `SELECT pg_notify('${HANDSHAKEN}', id) FROM (${of}) AS told`;

/** Subscribes to answered handshakes. */
export function subscribeToHandshakeAnswers(
  listener: Listener,
  onAnswer: (id: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(HANDSHAKEN, { onNotice: onAnswer, onReconnect: onEverything });
}
