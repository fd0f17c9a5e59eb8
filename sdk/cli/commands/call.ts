/** `bulkhead call`: calls a tool of an installed plugin, in a session that lasts as long as the call. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { fullName, Trials } from '../trials.ts';
import { typedObject } from '../typed-json.ts';

export const call: Command = {
  name: 'call',
  summary: 'Call a tool of an installed plugin',
  args: [
    { name: '<tool>', doc: 'in full: <slug>__<tool>' },
    { name: '[arguments]', doc: 'a JSON object' },
  ],
  examples: [`call weather__forecast '{"city":"Riga"}'`],
  async run(context, given) {
    const name = given.args[0] ?? '';
    const args = typedObject(given.args[1], '{"city":"Riga"}');
    const trials = await Trials.open(context);
    try {
      const tools = await (await trials.session()).tools({ signal: context.signal });
      if (!tools.some((tool) => tool.name === name)) {
        const known = tools.map((tool) => tool.name).join(', ') || 'none at all';
        throw new CommandError('not_found', `No installed plugin has the tool “${name}”: there are ${known}.`);
      }
      const [slug = ''] = name.split('__');
      const result = (await trials.call(slug, fullName(slug, name), args)) as {
        content: readonly { type: string; text?: string }[];
        isError: boolean;
      };
      for (const part of result.content) context.output.say(part.text ?? JSON.stringify(part, null, 2));
      if (result.isError && !context.output.json) {
        throw new CommandError('plugin_failed', `The tool ${name} answered that it failed.`);
      }
      return result;
    } finally {
      await trials.close();
    }
  },
};
