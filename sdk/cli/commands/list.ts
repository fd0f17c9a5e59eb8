/** `bulkhead list`: shows the plugin in the catalog. */
import type { Command } from '../command.ts';
import { requirePlugin } from '../own-plugins.ts';
import { slugHere } from '../package-folder.ts';
import type { Plugin } from '../records.ts';

export const list: Command = {
  name: 'list',
  summary: 'List a plugin in the catalog, for everybody',
  args: [{ name: '[slug]', doc: 'the plugin; else the one of this folder' }],
  async run(context, given) {
    const rest = await context.rest();
    const { id } = await requirePlugin(rest, given.args[0] ?? (await slugHere(context.folder)));
    const plugin = await rest.post<Plugin>(`/plugins/${id}/listing`);
    context.output.say(`${plugin.slug} is in the catalog: bulkhead install ${plugin.slug}`);
    return plugin;
  },
};
