/** `bulkhead delist`: removes a plugin from the catalog. */
import type { Command } from '../command.ts';
import { requirePlugin } from '../lookup.ts';
import { readSlug } from '../package-folder.ts';
import type { Plugin } from '../rest-types.ts';

export const delist: Command = {
  name: 'delist',
  summary: 'Remove a plugin from the catalog; installations keep working',
  args: [{ name: '[slug]', doc: 'slug of the plugin (default: from the current folder)' }],
  options: [{ flags: '-m, --message <text>', doc: 'deprecation message for users who have it installed' }],
  examples: ['delist weather --message "Use forecast instead"'],
  async run(context, args) {
    const rest = await context.getRest();
    const { id } = await requirePlugin(rest, args.positional[0] ?? (await readSlug(context.folder)));
    const message = args.text('message');
    const plugin = await rest.delete<Plugin>(
      `/plugins/${id}/listing`,
      message === undefined ? {} : { deprecationMessage: message },
    );
    context.output.printLine(`${plugin.slug} is no longer in the catalog. Installations keep working.`);
    return plugin;
  },
};
