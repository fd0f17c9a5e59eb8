/** `bulkhead call`: calls a tool of an installed plugin in a temporary session. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { parseJsonObject } from '../json-argument.ts';
import { TestSession } from '../test-session.ts';

export const call: Command = {
  name: 'call',
  summary: 'Call a tool of an installed plugin',
  args: [
    { name: '<tool>', doc: 'full name of the tool: <slug>__<tool>' },
    { name: '[arguments]', doc: 'a JSON object' },
  ],
  examples: [`call weather__forecast '{"city":"Riga"}'`],
  async run(context, args) {
    const name = args.positional[0] ?? '';
    const toolArguments = parseJsonObject(args.positional[1], '{"city":"Riga"}');
    const testSession = await TestSession.open(context);
    try {
      const session = await testSession.getSession();
      const tools = await session.tools({ signal: context.signal });
      if (!tools.some((tool) => tool.name === name)) {
        const known = tools.map((tool) => tool.name).join(', ') || 'none';
        throw new CommandError('not_found', `No installed plugin has the tool “${name}”. Known: ${known}.`);
      }
      const result = await session.callTool(name, toolArguments, { signal: context.signal });
      for (const part of result.content) {
        context.output.printLine(part.type === 'text' ? part.text : JSON.stringify(part, null, 2));
      }
      if (result.isError && !context.output.json) {
        throw new CommandError('plugin_failed', `The tool ${name} returned an error.`);
      }
      return result;
    } finally {
      await testSession.close();
    }
  },
};
