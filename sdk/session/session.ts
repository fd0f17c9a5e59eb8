/** `@bulkhead/sdk/session`: what an agent runtime imports. */
export type * from './answers.ts';
export { connect, type Session, type SessionClient } from './client.ts';
export { BulkheadError, ConnectionLostError, type TransportOptions } from './transport.ts';
