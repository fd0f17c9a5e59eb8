/** `bulkhead accept`: accepts an update that requests more access. */

import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { requireInstallation } from '../lookup.ts';
import { formatReach, formatSecretUses } from '../reach-text.ts';
import type { Installation, UpdateChanges } from '../rest-types.ts';
import { askToConfirm } from '../terminal-prompts.ts';
import { printUpdate } from '../update-text.ts';

export const accept: Command = {
  name: 'accept',
  summary: 'Accept an update that requests more access',
  args: [{ name: '<plugin>', doc: 'slug of the plugin, or id of the installation' }],
  options: [{ flags: '-y, --yes', doc: 'consent to it; needed without a terminal' }],
  async run(context, args) {
    const { output } = context;
    const rest = await context.getRest();
    const { id, slug, reach, pendingUpdate } = await requireInstallation(rest, args.positional[0] ?? '');
    if (!pendingUpdate) throw new CommandError('not_pending', `“${slug}” has no update that needs your consent.`);
    const { versionId, semVer, added, missing } = pendingUpdate;
    if (added.length > 0) output.printLine(`${slug} ${semVer} asks for more access:`);
    const requested = reach.filter(({ capability }) => added.includes(capability));
    for (const line of formatReach(requested, output.paint)) output.printLine(line);
    if (missing.length > 0) {
      output.printLine(`${slug} ${semVer} needs ${missing.join(', ')}, which you have not set.`);
      const { fields } = await rest.get<UpdateChanges>(`/installations/${id}/update-changes?versionId=${versionId}`);
      for (const line of formatSecretUses(fields.secrets, output.paint)) output.printLine(line);
    }
    if (added.length + missing.length === 0) {
      output.printLine(`${slug} ${semVer} drops a hook of a plugin that you require.`);
    }
    await askToConfirm(context, args, 'Accept it?', 'Nothing was accepted.');
    // Names the version that was shown, so that a later one is not accepted with it.
    const updated = await rest.post<Installation>(`/installations/${id}/accept-update`, { versionId });
    printUpdate(output, updated);
    return updated;
  },
};
