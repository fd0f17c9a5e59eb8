/** `bulkhead give-up`: makes a pending delivery a dead letter. */
import type { Command } from '../command.ts';
import { callDelivery, deliveryArguments } from '../delivery-lookup.ts';

export const giveUp: Command = {
  name: 'give-up',
  summary: 'Give up a pending webhook request or reply, so that the next one follows',
  ...deliveryArguments,
  run: (context, args) => callDelivery(context, args, { name: 'give-up', kinds: ['deliveries'], done: 'given up' }),
};
