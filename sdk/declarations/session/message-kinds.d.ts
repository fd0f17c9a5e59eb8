/** Kinds of messages that wait in a session, as their data names them. */
import type { Trigger } from './api-types.js';
/** What triggers the turn that answers a message, by the `kind` of its data. */
export declare const triggersByKind: Readonly<Record<string, Trigger>>;
