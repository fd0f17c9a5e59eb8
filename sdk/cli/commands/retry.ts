/** `bulkhead retry`: tries an update that failed again. */

import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { requireInstallation } from '../lookup.ts';
import type { Installation } from '../rest-types.ts';
import { printUpdate } from '../update-text.ts';

export const retry: Command = {
  name: 'retry',
  summary: 'Try a failed update again',
  args: [{ name: '<plugin>', doc: 'slug of the plugin, or id of the installation' }],
  async run(context, args) {
    const rest = await context.getRest();
    const { id, slug, failedUpdate } = await requireInstallation(rest, args.positional[0] ?? '');
    if (!failedUpdate) throw new CommandError('not_pending', `No update of “${slug}” has failed.`);
    const updated = await rest.post<Installation>(`/installations/${id}/retry-update`);
    printUpdate(context.output, updated);
    return updated;
  },
};
