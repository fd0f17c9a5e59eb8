/** The entry point `@bulkhead/sdk/session`, for agent runtimes. */
export type * from './api-types.ts';
export { connect, type Session, type SessionClient } from './client.ts';
export { HostServices } from './host-services.ts';
export { type ServedAgent, type ServedMessage, type ServeOptions, serve } from './serve.ts';
export { BulkheadError, ConnectionLostError, type TransportOptions } from './transport.ts';
export { Turn } from './turn.ts';
