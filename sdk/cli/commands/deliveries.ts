/** `bulkhead deliveries`: lists what came in and went out through an installation's channels. */
import { type Command, LISTED_MAX } from '../command.ts';
import { formatDelivery } from '../delivery-text.ts';
import { requireInstallation } from '../lookup.ts';
import type { Delivery } from '../rest-types.ts';

const SHOWN = 50;
const STATES: readonly Delivery['state'][] = ['pending', 'delivered', 'dead'];

export const deliveries: Command = {
  name: 'deliveries',
  summary: 'List the webhook requests and replies of a plugin, newest first, and why they wait',
  args: [{ name: '<slug>', doc: 'slug of the plugin' }],
  options: [
    { flags: '--state <state>', doc: 'deliveries in this state only (default: all)', choices: STATES },
    { flags: '-n, --limit <number>', doc: `how many of the newest ones (default: ${SHOWN})` },
  ],
  examples: ['deliveries inbox --state pending', 'deliveries inbox --state dead --limit 10000 --json'],
  async run(context, args) {
    const limit = args.wholeNumber('limit', { from: 1, to: LISTED_MAX, preset: SHOWN });
    const rest = await context.getRest();
    const { id } = await requireInstallation(rest, args.positional[0] ?? '');
    const state = args.text('state');
    const filter = state === undefined ? {} : { state };
    // One more than is shown, so that the command can say that others exist.
    const found = await rest.getFirst<Delivery>(`/installations/${id}/deliveries`, filter, limit + 1);
    const items = found.slice(0, limit);
    const { output } = context;
    for (const item of items) for (const line of formatDelivery(item)) output.printLine(line);
    if (items.length === 0) output.printLine('none');
    if (found.length > limit)
      output.printNote(`These are the newest ${limit}. For older ones, pass a higher \`--limit\`.`);
    return items;
  },
};
