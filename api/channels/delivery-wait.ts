/** Says why a pending delivery waits. Pure. */
import type { Delivery } from '../../db/channels/delivery-history.ts';

type DeliveryFacts = Pick<
  Delivery,
  'state' | 'attempting' | 'waitsFor' | 'nextAttemptAt' | 'setAside' | 'attempts' | 'lastError'
>;

/** @returns one sentence; null: the delivery is finished */
export function describeWait(facts: DeliveryFacts, now: number): string | null {
  const { state, attempting, waitsFor, nextAttemptAt, setAside, attempts, lastError } = facts;
  if (state !== 'pending') return null;
  if (attempting) return 'It is being attempted now.';
  if (waitsFor) {
    const error = waitsFor.lastError === null ? '' : `, whose last attempt failed: ${waitsFor.lastError}`;
    return `It waits for delivery ${waitsFor.id}, which comes first${error}`;
  }
  if (nextAttemptAt === null) return `It waits until the installation can run: ${lastError}`;
  // The database sets the time, and its clock may be ahead. An attempt that was postponed has an error.
  if (Date.parse(nextAttemptAt) <= now || lastError === null) return 'It is next.';
  if (attempts === 0) return `The plugin could not be called: ${lastError}`;
  const passed = setAside ? 'Later deliveries pass it' : 'Later deliveries of the channel wait for it';
  return `It failed ${attempts === 1 ? 'once' : `${attempts} times`} and is attempted again. ${passed}.`;
}
