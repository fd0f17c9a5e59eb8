/** Offers commands as prompts of the Model Context Protocol, each with one argument. */
import {
  ErrorCode,
  type GetPromptRequest,
  GetPromptRequestSchema,
  type GetPromptResult,
  ListPromptsRequestSchema,
  McpError,
  type PromptMessage,
} from '@modelcontextprotocol/sdk/types.js';
import { Problem } from '../../sdk/contract/errors.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import { TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import { addUnconfigured } from '../children/account-plugins-cache.ts';
import { listCommands, runCommand } from '../sessions/commands.ts';
import { type Content, readJudged } from './judged-content.ts';
import type { ServerParts } from './server-parts.ts';
import { canElicit, describeCall, type HandlerExtra } from './setup-questions.ts';

const INPUT = { name: 'input', description: 'The input of the command.', required: false };

/** The input of a command after the plugins' changes. @throws Problem where they changed anything else */
function readInput(args: unknown, name: string): string {
  const given = args as { readonly name?: unknown; readonly input?: unknown } | null;
  const input = given?.input ?? '';
  if (typeof input === 'string' && input.length <= TEXT_MAX_CHARS && (given?.name ?? name) === name) return input;
  throw new Problem('plugin_failed', `A plugin changed the arguments of ${name} to what no prompt takes.`);
}

/** A command answers with text. Only a plugin that changes the answer adds pictures. */
const toMessage = (part: Content): PromptMessage => ({
  role: 'user',
  content:
    'text' in part
      ? { type: 'text', text: part.text }
      : { type: 'image', data: part.blob, mimeType: part.mimeType ?? 'application/octet-stream' },
});

export function offerPrompts({ server, services, session, questions, wrap }: ServerParts): void {
  const { pluginsCache } = services;
  const commands = async () => listCommands((await pluginsCache.get(session.accountId)).plugins);
  /** Also those of plugins that only lack configuration. */
  const allCommands = async () => listCommands(addUnconfigured(await pluginsCache.get(session.accountId)).plugins);
  const findCommand = async (fullName: string) =>
    (await allCommands()).find(({ plugin, name }) => formatFullName(plugin, name) === fullName);
  const listPrompts = async () => ({
    prompts: (await (canElicit(server) ? allCommands() : commands())).map(({ plugin, name, description }) => ({
      name: formatFullName(plugin, name),
      title: `${name} (${plugin.slug})`,
      description,
      arguments: [INPUT],
    })),
  });
  server.setRequestHandler(ListPromptsRequestSchema, wrap(listPrompts));
  const getPrompt = async ({ params }: GetPromptRequest, extra: HandlerExtra): Promise<GetPromptResult> => {
    const found = await findCommand(params.name);
    const isWaiting = found?.plugin.status === 'needs_configuration';
    const refusal = isWaiting ? await questions.configure(found.plugin, describeCall(server, extra)) : null;
    if (refusal !== null) throw new McpError(ErrorCode.InvalidParams, refusal);
    const command = isWaiting ? await findCommand(params.name) : found;
    if (!command || command.plugin.status === 'needs_configuration')
      throw new McpError(ErrorCode.InvalidParams, 'No prompt has this name.');
    const input = params.arguments?.input ?? '';
    if (input.length > TEXT_MAX_CHARS)
      throw new McpError(ErrorCode.InvalidParams, `input has more than ${TEXT_MAX_CHARS} characters.`);
    const { signal } = extra;
    // As the tool that adapters offer for commands.
    const reading = { name: 'run_command', arguments: { name: params.name, input }, signal };
    const parts = await readJudged(services, session, reading, async (args) => ({
      text: await runCommand(services, session, command, readInput(args, params.name), signal),
    }));
    return { description: command.description, messages: parts.map(toMessage) };
  };
  server.setRequestHandler(GetPromptRequestSchema, wrap(getPrompt));
}
