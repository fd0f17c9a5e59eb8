/** How a plugin is told of an event. */
import { randomUUIDv7 } from 'node:crypto';
import { type EventName, events } from '../../sdk/protocol.ts';
import type { PluginCall } from '../plugin-call.ts';

/** What its handler reads about it: the context of every event, as the reference says. */
export interface EventContext {
  readonly id: string;
  readonly type: EventName;
  readonly occurredAt: string;
  /** From 1. */
  readonly attempt: number;
  readonly installationId: string;
  readonly pluginId: string;
  readonly versionId: string;
  readonly semVer: string;
  readonly data: unknown;
}

/** One attempt, whose time begins now. */
export function eventCall(context: EventContext): PluginCall {
  return {
    target: { kind: 'event', name: context.type },
    invocationId: randomUUIDv7(),
    session: null,
    deadlineAt: Date.now() + events[context.type].budgetMs,
    context: { ...context },
  };
}
