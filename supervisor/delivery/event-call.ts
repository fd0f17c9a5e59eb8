/** Calls a plugin's event handler. */
import { randomUUIDv7 } from 'node:crypto';
import type { z } from 'zod';
import { type EventName, type eventEnvelope, events } from '../../sdk/contract/protocol.ts';
import type { PluginCall } from '../calls/plugin-call.ts';

/** Builds the handler's argument. Its data was validated when the event was recorded. */
type Envelope = Omit<z.infer<typeof eventEnvelope>, 'type' | 'data'> & {
  readonly type: EventName;
  readonly data: object;
};

/** Makes one attempt. Its deadline starts now. */
export function eventCall(envelope: Envelope): PluginCall {
  return {
    target: { kind: 'event', name: envelope.type },
    invocationId: randomUUIDv7(),
    session: null,
    deadlineAt: Date.now() + events[envelope.type].budgetMs,
    context: envelope,
  };
}
