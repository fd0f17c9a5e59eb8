/** `bulkhead accept`: consents to an update that asks for more access. */
import { agree } from '../asking.ts';
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { requireInstallation } from '../own-plugins.ts';
import type { Installation } from '../records.ts';

export const accept: Command = {
  name: 'accept',
  summary: 'Accept an update that asks for more access',
  args: [{ name: '<plugin>', doc: 'its slug, or the installation’s id' }],
  options: [{ flags: '-y, --yes', doc: 'do not ask' }],
  async run(context, given) {
    const { output } = context;
    const rest = await context.rest();
    const { id, slug, pendingUpdate } = await requireInstallation(rest, given.args[0] ?? '');
    if (!pendingUpdate) throw new CommandError('not_pending', `No update of “${slug}” waits for your consent.`);
    output.say(`${slug} ${pendingUpdate.semVer} asks for ${pendingUpdate.added.join(', ')}`);
    await agree(context, given, 'Accept it?', 'Nothing was accepted.');
    // The version that was shown: one published since is not accepted with it.
    const body = { versionId: pendingUpdate.versionId };
    const now = await rest.post<Installation>(`/installations/${id}/accept-update`, body);
    output.say(`${slug} runs ${now.currentSemVer}.`);
    return now;
  },
};
