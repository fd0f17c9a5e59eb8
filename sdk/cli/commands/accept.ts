/** `bulkhead accept`: accepts an update that requests more access. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { requireInstallation } from '../lookup.ts';
import { formatEndingChecks, formatReach, formatSecretUses } from '../reach-text.ts';
import type { Installation, UpdateChanges } from '../rest-types.ts';
import { askToConfirm } from '../terminal-prompts.ts';
import { toOneLine } from '../terminal-text.ts';
import { printUpdate } from '../update-text.ts';

/** Changed texts and files that are listed by name. More would push the requested access off a screen of usual height. */
const LISTED_CHANGES_MAX = 12;

export const accept: Command = {
  name: 'accept',
  summary: 'Accept an update that requests more access',
  args: [{ name: '<plugin>', doc: 'slug of the plugin, or id of the installation' }],
  options: [{ flags: '-y, --yes', doc: 'consent to it; needed without a terminal' }],
  async run(context, args) {
    const { output } = context;
    const rest = await context.getRest();
    const installation = await requireInstallation(rest, args.positional[0] ?? '');
    const { id, slug, reach, pendingUpdate } = installation;
    if (!pendingUpdate) throw new CommandError('not_pending', `“${slug}” has no update that needs your consent.`);
    const { versionId, added, missing } = pendingUpdate;
    const semVer = pendingUpdate.semVer ?? 'the draft';
    if (added.length > 0) output.printLine(`${slug} ${semVer} asks for more access:`);
    const asked = reach.filter(({ capability }) => added.includes(capability));
    for (const line of formatReach(asked, output.paint)) output.printLine(line);
    const changes = await rest.get<UpdateChanges>(`/installations/${id}/update-changes?versionId=${versionId}`);
    if (missing.length > 0) {
      output.printLine(`${slug} ${semVer} needs ${missing.join(', ')}, which you have not set.`);
      for (const line of formatSecretUses(changes.fields.secrets, output.paint)) output.printLine(line);
    }
    const ending = formatEndingChecks(installation, output.paint);
    if (ending.length > 0) {
      output.printLine(
        `You require ${slug}, but with ${semVer}, messages and turns continue without these checks of it:`,
      );
      for (const line of ending) output.printLine(line);
    }
    for (const line of formatChanges(changes)) output.printLine(line);
    await askToConfirm(context, args, 'Accept it?', 'Nothing was accepted.');
    // Names the version that was shown, so that a later one is not accepted with it.
    const updated = await rest.post<Installation>(`/installations/${id}/accept-update`, { versionId });
    printUpdate(output, updated);
    return updated;
  },
};

/** Lists the texts that models read before the other files. */
function formatChanges({ texts, files }: UpdateChanges): string[] {
  const all = [
    ...texts.map(({ kind, name, change }) => `  ${kind} “${name}”: ${change}`),
    ...files.map(({ path, change }) => `  ${path}: ${change}`),
  ];
  if (all.length === 0) return [];
  const left = all.length - LISTED_CHANGES_MAX;
  const more = left > 0 ? [`  and ${left} more`] : [];
  return ['Changes that the console shows line by line:', ...all.slice(0, LISTED_CHANGES_MAX).map(toOneLine), ...more];
}
