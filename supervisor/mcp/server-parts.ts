/** The parts of the servers of the Model Context Protocol. */
import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { Session } from '../../db/sessions/sessions.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import type { HandlerWrapper } from './mcp-errors.ts';
import type { SetupQuestions } from './setup-questions.ts';

/** Shared by all connections of a process. */
export interface McpDeps {
  readonly services: SessionServices;
  readonly questions: SetupQuestions;
  readonly version: string;
  /** Receives errors whose texts clients must not read. */
  onError(error: unknown): void;
}
/** Used by the handlers of one connection. */
export interface ServerParts extends Pick<McpDeps, 'services' | 'questions'> {
  readonly server: Server;
  readonly session: Session;
  readonly wrap: HandlerWrapper;
}
