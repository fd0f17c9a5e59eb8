/** `bulkhead pause`: stops an installation until `bulkhead resume`. */
import type { Command } from '../command.ts';
import { requireInstallation } from '../lookup.ts';
import type { Installation } from '../rest-types.ts';

export const pause: Command = {
  name: 'pause',
  summary: 'Stop an installation until you resume it',
  args: [{ name: '<slug>', doc: 'slug of the plugin' }],
  async run(context, args) {
    const rest = await context.getRest();
    const { id, slug } = await requireInstallation(rest, args.positional[0] ?? '');
    const paused = await rest.post<Installation>(`/installations/${id}/pause`);
    context.output.printLine(`${slug} is paused. Its webhook requests and events wait: bulkhead resume ${slug}`);
    return paused;
  },
};
