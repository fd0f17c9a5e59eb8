/** `bulkhead delist`: takes the plugin out of the catalog. */
import type { Command } from '../command.ts';
import { requirePlugin } from '../own-plugins.ts';
import { slugHere } from '../package-folder.ts';
import type { Plugin } from '../records.ts';

export const delist: Command = {
  name: 'delist',
  summary: 'Take a plugin out of the catalog; what is installed keeps working',
  args: [{ name: '[slug]', doc: 'the plugin; else the one of this folder' }],
  options: [{ flags: '-m, --message <text>', doc: 'what those read who have it installed' }],
  examples: ['delist weather --message "Use forecast instead"'],
  async run(context, given) {
    const rest = await context.rest();
    const { id } = await requirePlugin(rest, given.args[0] ?? (await slugHere(context.folder)));
    const message = given.text('message');
    const plugin = await rest.delete<Plugin>(
      `/plugins/${id}/listing`,
      message === undefined ? {} : { deprecationMessage: message },
    );
    context.output.say(`${plugin.slug} is no longer in the catalog. What is installed keeps working.`);
    return plugin;
  },
};
