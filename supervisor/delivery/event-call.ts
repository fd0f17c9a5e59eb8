/** How a plugin is told of an event. */
import { randomUUIDv7 } from 'node:crypto';
import type { z } from 'zod';
import { type EventName, type eventEnvelope, events } from '../../sdk/contract/protocol.ts';
import type { PluginCall } from '../calls/plugin-call.ts';

/** What the handler reads, its data as it was checked when the event was made. */
type Envelope = Omit<z.infer<typeof eventEnvelope>, 'type' | 'data'> & {
  readonly type: EventName;
  readonly data: object;
};

/** One attempt, whose time begins now. */
export function eventCall(envelope: Envelope): PluginCall {
  return {
    target: { kind: 'event', name: envelope.type },
    invocationId: randomUUIDv7(),
    session: null,
    deadlineAt: Date.now() + events[envelope.type].budgetMs,
    context: envelope,
  };
}
