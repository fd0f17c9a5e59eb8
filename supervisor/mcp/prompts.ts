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
import { listCommands, runCommand } from '../sessions/commands.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { asMcpError } from './mcp-errors.ts';

const INPUT = { name: 'input', description: 'What the command is about.', required: false };

/** Handles `prompts/list` and `prompts/get`. */
export function offerPrompts(server: Server, services: SessionServices, session: Session): void {
  const commands = async () => listCommands((await services.pluginsCache.get(session.accountId)).plugins);
  server.setRequestHandler(ListPromptsRequestSchema, async () => ({
    prompts: (await commands()).map(({ plugin, name, description }) => ({
      name: formatFullName(plugin, name),
      title: `${name} (${plugin.slug})`,
      description,
      arguments: [INPUT],
    })),
  }));
  server.setRequestHandler(GetPromptRequestSchema, async ({ params }, { signal }) => {
    const command = (await commands()).find(({ plugin, name }) => formatFullName(plugin, name) === params.name);
    if (!command) throw new McpError(ErrorCode.InvalidParams, 'No prompt has this name.');
    const input = params.arguments?.input ?? '';
    if (input.length > TEXT_MAX_CHARS)
      throw new McpError(ErrorCode.InvalidParams, `input has more than ${TEXT_MAX_CHARS} characters.`);
    const text = await runCommand(services, session, command, input, signal).catch((error: unknown) => {
      throw asMcpError(error);
    });
    return {
      description: command.description,
      messages: [{ role: 'user' as const, content: { type: 'text' as const, text } }],
    };
  });
}
