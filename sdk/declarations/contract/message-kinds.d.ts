/** Kinds of messages that wait in a session, as their data names them. */
import type { trigger } from './payloads.js';
type Trigger = (typeof trigger.options)[number];
/** What triggers the turn that answers a message, by the `kind` of its data. */
export declare const triggersByKind: Readonly<Record<string, Trigger>>;
export {};
