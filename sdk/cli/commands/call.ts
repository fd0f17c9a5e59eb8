/** `bulkhead call`: calls a tool of an installed plugin in a temporary session. */
import type { Tool } from '../../session/api-types.ts';
import { hasCode } from '../../session/transport.ts';
import type { Command } from '../command.ts';
import { describeConditionAndStep } from '../condition-text.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { parseJsonObject } from '../json-argument.ts';
import { suggestName } from '../nearest-name.ts';
import type { Installation } from '../rest-types.ts';
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
      if (!tools.some((tool) => tool.name === name)) throw await createUnknownToolError(context, name, tools);
      const result = await session
        .callTool(name, toolArguments, { signal: context.signal })
        .catch(async (error: unknown) => {
          const stopped = hasCode(error, 'unavailable') ? await findStopped(context, name) : null;
          throw stopped ?? error;
        });
      for (const part of result.content) {
        context.output.printLine(part.type === 'text' ? part.text : JSON.stringify(part, null, 2));
      }
      if (result.isError) {
        throw new CommandError('plugin_failed', `The tool ${name} returned an error.`, { result });
      }
      return result;
    } finally {
      await testSession.close();
    }
  },
};

/** A plugin that does not run has no tools. */
async function createUnknownToolError(context: Context, name: string, tools: readonly Tool[]): Promise<CommandError> {
  const stopped = await findStopped(context, name);
  if (stopped) return stopped;
  const known = tools.map((tool) => tool.name);
  const hint = known.length === 0 ? 'No installed plugin has a tool now.' : suggestName(name, known);
  return new CommandError('not_found', `No installed plugin has the tool “${name}”. ${hint}`);
}

/** The state and the next step of the plugin of a tool. Null: it runs, or is not installed. */
async function findStopped(context: Context, name: string): Promise<CommandError | null> {
  const installations = await (await context.getRest()).getAll<Installation>('/installations');
  const owner = installations.find(({ slug }) => name.startsWith(`${slug}__`));
  if (!owner || owner.condition.state === 'ready') return null;
  const state = describeConditionAndStep(owner);
  return new CommandError('not_running', `“${owner.slug}” cannot run “${name}” now. Its state is ${state}`);
}
