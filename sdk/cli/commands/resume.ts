/** `bulkhead resume`: lets a paused installation run again. */
import type { Command } from '../command.ts';
import { requireInstallation } from '../lookup.ts';
import type { Installation } from '../rest-types.ts';
import { toOneLine } from '../terminal-text.ts';

export const resume: Command = {
  name: 'resume',
  summary: 'Let a paused installation run again',
  args: [{ name: '<slug>', doc: 'slug of the plugin' }],
  async run(context, args) {
    const rest = await context.getRest();
    const { id, slug } = await requireInstallation(rest, args.positional[0] ?? '');
    const resumed = await rest.post<Installation>(`/installations/${id}/resume`);
    const { state, cause } = resumed.condition;
    context.output.printLine(`${slug}: ${state.replaceAll('_', ' ')}${cause === null ? '' : `: ${toOneLine(cause)}`}`);
    return resumed;
  },
};
