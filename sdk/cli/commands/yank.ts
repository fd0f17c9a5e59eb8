/** `bulkhead yank`: withdraws a version. */
import type { Command } from '../command.ts';
import { requirePlugin, requireVersion } from '../lookup.ts';
import { readSlug } from '../package-folder.ts';
import type { Version } from '../rest-types.ts';

export const yank: Command = {
  name: 'yank',
  summary: 'Withdraw a version; installations that follow Latest and run it move to the newest version left',
  args: [{ name: '<version>', doc: 'such as 1.2.0' }],
  options: [{ flags: '--slug <slug>', doc: 'slug of the plugin (default: from the current folder)' }],
  examples: ['yank 1.2.0', 'yank 1.2.0 --slug weather'],
  async run(context, args) {
    const rest = await context.getRest();
    const plugin = await requirePlugin(rest, args.text('slug') ?? (await readSlug(context.folder)));
    const { id } = requireVersion(plugin, args.positional[0] ?? '');
    const version = await rest.post<Version>(`/plugins/${plugin.id}/versions/${id}/yank`);
    context.output.printLine(`${plugin.slug} ${version.semVer} is yanked. Its number cannot be reused.`);
    return version;
  },
};
