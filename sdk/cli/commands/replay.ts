/** `bulkhead replay`: queues a finished webhook request, reply or event for delivery again. */
import type { Command } from '../command.ts';
import { callDelivery, deliveryArguments } from '../delivery-lookup.ts';

export const replay: Command = {
  name: 'replay',
  summary: 'Deliver a finished webhook request, reply or event again',
  ...deliveryArguments,
  examples: ['replay 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11'],
  run: (context, args) =>
    callDelivery(context, args, { name: 'replay', kinds: ['deliveries', 'events'], done: 'queued' }),
};
