/** Describes deliveries for people. */
import type { Delivery } from './rest-types.ts';
import { toOneLine } from './terminal-text.ts';

/** The state of a delivery in one line; in a second one, why it waits or is dead. */
export function formatDelivery(delivery: Delivery): string[] {
  const { id, receivedAt, direction, state, setAside, attempts, waitReason, lastError } = delivery;
  const word = setAside && state === 'pending' ? 'set aside' : state;
  const tried = `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`;
  const line = `${id}  ${receivedAt}  ${direction.padEnd(3)}  ${word}  ${tried}`;
  const why = [waitReason, lastError].filter((text) => text !== null).join(' Last error: ');
  return state !== 'delivered' && why !== '' ? [line, `    ${toOneLine(why)}`] : [line];
}
