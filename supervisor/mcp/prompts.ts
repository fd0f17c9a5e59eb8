/** Offers commands as prompts of the Model Context Protocol, each with one argument. */
import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  ErrorCode,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  McpError,
} from '@modelcontextprotocol/sdk/types.js';
import type { Session } from '../../db/sessions/sessions.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import { TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import { addUnconfigured } from '../children/account-plugins-cache.ts';
import { listCommands, runCommand } from '../sessions/commands.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { asMcpError } from './mcp-errors.ts';
import { canElicit, describeCall, type SetupQuestions } from './setup-questions.ts';

const INPUT = { name: 'input', description: 'What the command is about.', required: false };

/** Handles `prompts/list` and `prompts/get`. */
export function offerPrompts(
  server: Server,
  services: SessionServices,
  session: Session,
  questions: SetupQuestions,
): void {
  const { pluginsCache } = services;
  const commands = async () => listCommands((await pluginsCache.get(session.accountId)).plugins);
  /** Also those of plugins that only lack configuration. */
  const allCommands = async () => listCommands(addUnconfigured(await pluginsCache.get(session.accountId)).plugins);
  const findCommand = async (fullName: string) =>
    (await allCommands()).find(({ plugin, name }) => formatFullName(plugin, name) === fullName);
  server.setRequestHandler(ListPromptsRequestSchema, async () => ({
    prompts: (await (canElicit(server) ? allCommands() : commands())).map(({ plugin, name, description }) => ({
      name: formatFullName(plugin, name),
      title: `${name} (${plugin.slug})`,
      description,
      arguments: [INPUT],
    })),
  }));
  server.setRequestHandler(GetPromptRequestSchema, async ({ params }, extra) => {
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
    const text = await runCommand(services, session, command, input, extra.signal).catch((error: unknown) => {
      throw asMcpError(error);
    });
    return {
      description: command.description,
      messages: [{ role: 'user' as const, content: { type: 'text' as const, text } }],
    };
  });
}
