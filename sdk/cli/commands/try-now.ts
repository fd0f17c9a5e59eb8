/** `bulkhead try-now`: attempts a waiting delivery at once. */
import type { Command } from '../command.ts';
import { callDelivery, deliveryArguments } from '../delivery-lookup.ts';

export const tryNow: Command = {
  name: 'try-now',
  summary: 'Attempt a waiting webhook request or reply at once',
  ...deliveryArguments,
  run: (context, args) => callDelivery(context, args, { name: 'try-now', kinds: ['deliveries'], done: 'due now' }),
};
