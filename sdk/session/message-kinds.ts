/** Kinds of messages that wait in a session, as their data names them. */
import type { Trigger } from './api-types.ts';

/** What triggers the turn that answers a message, by the `kind` of its data. */
export const triggersByKind: Readonly<Record<string, Trigger>> = { reminder: 'schedule', agent_message: 'agent' };
