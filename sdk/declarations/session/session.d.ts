/** The entry point `@bulkhead/sdk/session`, for agent runtimes. */
export type * from './api-types.js';
export { connect, type Session, type SessionClient } from './client.js';
export { HostServices } from './host-services.js';
export { type ServedAgent, type ServedMessage, type ServeOptions, serve } from './serve.js';
export { BulkheadError, ConnectionLostError, type TransportOptions } from './transport.js';
export { Turn } from './turn.js';
