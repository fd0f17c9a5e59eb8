/** `@bulkhead/sdk/session`: what an agent runtime imports. */
export type * from './session/answers.ts';
export { connect, type Session, type SessionClient } from './session/client.ts';
export { BulkheadError, ConnectionLostError, type TransportOptions } from './session/transport.ts';
