/** `bulkhead deliveries`: lists what came in and went out through an installation's channels. */
import type { Command } from '../command.ts';
import { requireInstallation } from '../lookup.ts';
import type { Delivery } from '../rest-types.ts';
import { toOneLine } from '../terminal-text.ts';

/** The newest ones; the console pages further. */
const SHOWN = 50;
const STATES: readonly Delivery['state'][] = ['pending', 'delivered', 'dead'];

export const deliveries: Command = {
  name: 'deliveries',
  summary: 'List the webhook requests and replies of a plugin, and why they wait',
  args: [{ name: '<slug>', doc: 'slug of the plugin' }],
  options: [{ flags: '--state <state>', doc: 'deliveries in this state only (default: all)', choices: STATES }],
  examples: ['deliveries inbox --state pending'],
  async run(context, args) {
    const rest = await context.getRest();
    const { id } = await requireInstallation(rest, args.positional[0] ?? '');
    const state = args.text('state');
    const items = await rest.getFirst<Delivery>(
      `/installations/${id}/deliveries`,
      state === undefined ? {} : { state },
      SHOWN,
    );
    const { output } = context;
    for (const { id: delivery, receivedAt, direction, state, setAside, attempts, waitReason, lastError } of items) {
      const word = setAside && state === 'pending' ? 'set aside' : state;
      output.printLine(
        `${delivery}  ${receivedAt}  ${direction.padEnd(3)}  ${word}  ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`,
      );
      const why = [waitReason, lastError].filter((text) => text !== null).join(' Last error: ');
      if (state !== 'delivered' && why !== '') output.printLine(`    ${toOneLine(why)}`);
    }
    if (items.length === 0) output.printLine('none');
    return items;
  },
};
