/** `bulkhead fire`: sends an event to the author's own draft and prints the outcome. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { parseJsonObject } from '../json-argument.ts';
import { requireInstallation } from '../lookup.ts';
import { readPackageFolder } from '../package-folder.ts';
import { TestSession } from '../test-session.ts';

export const fire: Command = {
  name: 'fire',
  summary: 'Send an event to your own draft',
  args: [
    { name: '<event>', doc: 'such as sessionStarted' },
    { name: '[data]', doc: 'JSON object; omitted fields come from the example in the reference' },
  ],
  options: [{ flags: '--slug <slug>', doc: 'slug of the plugin (default: from the current folder)' }],
  examples: ['fire pluginInstalled', `fire sessionCleared '{"messageCount":7}' --slug weather`],
  async run(context, args) {
    const data = parseJsonObject(args.positional[1], '{"messageCount":7}');
    const slug = args.text('slug') ?? (await readPackageFolder(context.folder, undefined)).slug;
    const { id } = await requireInstallation(await context.getRest(), slug, '--draft');
    const fired = await (await TestSession.open(context)).fireEvent(id, args.positional[0] ?? '', data);
    if (fired.outcome === 'failed') {
      const { error, ...result } = fired;
      throw new CommandError('plugin_failed', `events.${fired.event} failed after ${fired.ms} ms: ${error}.`, {
        result,
      });
    }
    context.output.printLine(`${context.output.paint.green('delivered')} events.${fired.event} in ${fired.ms} ms`);
    return fired;
  },
};
