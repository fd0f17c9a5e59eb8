/** `bulkhead fire`: sends an event to the author's own draft, and says what came of it. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { requireInstallation } from '../own-plugins.ts';
import { openFolder } from '../package-folder.ts';
import { Trials } from '../trials.ts';
import { typedObject } from '../typed-json.ts';

export const fire: Command = {
  name: 'fire',
  summary: 'Send an event to your own draft',
  args: [
    { name: '<event>', doc: 'such as sessionStarted' },
    { name: '[data]', doc: 'a JSON object; what it leaves out is as in the reference’s example' },
  ],
  options: [{ flags: '--slug <slug>', doc: 'the plugin’s slug; else that of this folder’s package' }],
  examples: ['fire pluginInstalled', `fire sessionCleared '{"messageCount":7}' --slug weather`],
  async run(context, given) {
    const data = typedObject(given.args[1], '{"messageCount":7}');
    const slug = given.text('slug') ?? (await openFolder(context.folder, undefined)).slug;
    const { id } = await requireInstallation(await context.rest(), slug);
    const fired = await (await Trials.open(context)).fire(id, given.args[0] ?? '', data);
    if (fired.outcome === 'failed' && !context.output.json)
      throw new CommandError('plugin_failed', `events.${fired.event} failed after ${fired.ms} ms: ${fired.error}.`);
    context.output.say(`${context.output.paint.green('delivered')} events.${fired.event} in ${fired.ms} ms`);
    return fired;
  },
};
