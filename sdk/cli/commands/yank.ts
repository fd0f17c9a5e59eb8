/** `bulkhead yank`: takes a version back. */
import type { Command } from '../command.ts';
import { requirePlugin, requireVersion } from '../own-plugins.ts';
import { slugHere } from '../package-folder.ts';
import type { Version } from '../records.ts';

export const yank: Command = {
  name: 'yank',
  summary: 'Take a version back; who follows the latest moves to the one before',
  args: [{ name: '<version>', doc: 'such as 1.2.0' }],
  options: [{ flags: '--slug <slug>', doc: 'the plugin; else the one of this folder' }],
  examples: ['yank 1.2.0', 'yank 1.2.0 --slug weather'],
  async run(context, given) {
    const rest = await context.rest();
    const plugin = await requirePlugin(rest, given.text('slug') ?? (await slugHere(context.folder)));
    const { id } = requireVersion(plugin, given.args[0] ?? '');
    const version = await rest.post<Version>(`/plugins/${plugin.id}/versions/${id}/yank`);
    context.output.say(`${plugin.slug} ${version.semVer} is yanked. Its number stays taken.`);
    return version;
  },
};
