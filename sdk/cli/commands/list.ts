/** `bulkhead list`: lists a plugin in the catalog. */
import type { Command } from '../command.ts';
import { requirePlugin } from '../lookup.ts';
import { readSlug } from '../package-folder.ts';
import type { Plugin } from '../rest-types.ts';

export const list: Command = {
  name: 'list',
  summary: 'List a plugin in the catalog for all users',
  args: [{ name: '[slug]', doc: 'slug of the plugin (default: from the current folder)' }],
  async run(context, args) {
    const rest = await context.getRest();
    const { id } = await requirePlugin(rest, args.positional[0] ?? (await readSlug(context.folder)));
    const plugin = await rest.post<Plugin>(`/plugins/${id}/listing`);
    context.output.printLine(`${plugin.slug} is in the catalog. Install it with: bulkhead install ${plugin.slug}`);
    return plugin;
  },
};
