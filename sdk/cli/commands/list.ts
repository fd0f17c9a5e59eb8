/** `bulkhead list`: lists a plugin in the catalog. */
import type { Command } from '../command.ts';
import { requirePlugin } from '../lookup.ts';
import { readSlug } from '../package-folder.ts';
import type { Plugin } from '../rest-types.ts';
import { askToConfirm } from '../terminal-prompts.ts';

export const list: Command = {
  name: 'list',
  summary: 'Put a plugin into the catalog for all users; to see your plugins, use status',
  args: [{ name: '[slug]', doc: 'slug of the plugin (default: from the current folder)' }],
  options: [{ flags: '-y, --yes', doc: 'do not ask for confirmation' }],
  async run(context, args) {
    const rest = await context.getRest();
    const { id, slug, visibility } = await requirePlugin(rest, args.positional[0] ?? (await readSlug(context.folder)));
    // At a terminal, `list` may have been typed to list plugins.
    if (visibility !== 'listed' && context.canAsk) {
      const question = `Put ${slug} into the catalog for all users?`;
      await askToConfirm(context, args, question, 'Nothing was changed. To list your plugins, run `bulkhead status`.');
    }
    const plugin = await rest.post<Plugin>(`/plugins/${id}/listing`);
    context.output.printLine(`${plugin.slug} is in the catalog. Install it with: bulkhead install ${plugin.slug}`);
    return plugin;
  },
};
