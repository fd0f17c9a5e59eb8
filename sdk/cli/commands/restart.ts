/** `bulkhead restart`: restarts an installation and forgets its failures. */
import type { Command } from '../command.ts';
import { requireInstallation } from '../lookup.ts';
import type { Installation } from '../rest-types.ts';

export const restart: Command = {
  name: 'restart',
  summary: 'Restart an installation, also one that has failed too often',
  args: [{ name: '<slug>', doc: 'slug of the plugin' }],
  async run(context, args) {
    const rest = await context.getRest();
    const { id, slug } = await requireInstallation(rest, args.positional[0] ?? '');
    const restarted = await rest.post<Installation>(`/installations/${id}/restart`);
    context.output.printLine(`${slug} stops after its running calls. The next call starts it again.`);
    return restarted;
  },
};
