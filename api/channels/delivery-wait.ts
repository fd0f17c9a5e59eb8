/** Says why a pending delivery waits. Pure. */
import type { Delivery } from '../../db/channels/delivery-history.ts';
import { CHANNEL_QUEUES_PER_INSTALLATION } from '../../db/channels/queue-limits.ts';

type DeliveryFacts = Pick<
  Delivery,
  'direction' | 'state' | 'attempting' | 'waitsFor' | 'nextAttemptAt' | 'setAside' | 'attempts' | 'lastError'
>;

const NEXT = `It is next. At most ${CHANNEL_QUEUES_PER_INSTALLATION} deliveries of an installation are attempted at once.`;
const DUE_ASIDE =
  'It is due. Deliveries of the channel that were set aside are attempted one at a time, in the order in which they became due.';

/** @returns one or two sentences; null: the delivery is finished */
export function describeWait(facts: DeliveryFacts, now: number): string | null {
  const { state, attempting, waitsFor, nextAttemptAt, setAside, attempts, lastError } = facts;
  if (state !== 'pending') return null;
  if (attempting) return 'It is being attempted now.';
  if (waitsFor) return `It waits for delivery ${waitsFor.id}, which comes first${describeFirst(waitsFor)}`;
  if (nextAttemptAt === null) return `It waits until the installation can run: ${lastError}`;
  // The database sets the time, and its clock may be ahead. An attempt that was postponed has an error.
  if (Date.parse(nextAttemptAt) <= now || lastError === null) return setAside ? DUE_ASIDE : NEXT;
  if (attempts === 0) return `Its last attempt does not count: ${lastError}`;
  return `It failed ${attempts === 1 ? 'once' : `${attempts} times`} and is attempted again. ${describeOthers(facts)}.`;
}

function describeFirst({ lastError, attempts, isHeld }: NonNullable<Delivery['waitsFor']>): string {
  if (lastError === null) return '';
  if (isHeld) return `, and until the installation can run: ${lastError}`;
  return attempts === 0
    ? `. The last attempt at that one does not count: ${lastError}`
    : `, whose last attempt failed: ${lastError}`;
}

function describeOthers({ direction, setAside }: DeliveryFacts): string {
  if (!setAside) return 'Later deliveries of the channel wait for it';
  if (direction === 'in') return 'Later deliveries pass it';
  return 'Replies of other conversations pass it, and later ones of its conversation wait for it';
}
