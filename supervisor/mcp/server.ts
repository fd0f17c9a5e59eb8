/** One Model Context Protocol server: a session's tools, its commands as prompts, its skills and media as resources. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { Session } from '../../db/sessions/sessions.ts';
import { type Lists, watchLists } from './changes.ts';
import { wrapHandlers } from './mcp-errors.ts';
import { offerPrompts } from './prompts.ts';
import { offerResources } from './resources.ts';
import type { McpDeps } from './server-parts.ts';
import { canElicit } from './setup-questions.ts';
import { offerTools } from './tools.ts';

const INSTRUCTIONS =
  'Tools, prompts and skills of the plugins this account has installed. Names are <plugin>__<name>. Lists change when the user installs, updates or pauses a plugin.';

interface McpServer {
  readonly server: Server;
  /** Notifies the client that each list may have changed. */
  announceLists(): void;
  /** Ends the notifications of changed lists. */
  unwatch(): void;
}

/**
 * Builds the server of one connection. Each request reads the current lists.
 *
 * @param onChanged called at each change of a list, of which a client without a stream learns nothing
 */
export function buildServer(
  { services, questions, version, onError }: McpDeps,
  session: Session,
  onChanged: () => void,
): McpServer {
  const server = new Server(
    { name: 'bulkhead', title: 'Bulkhead', version },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true },
      },
      instructions: INSTRUCTIONS,
    },
  );
  const parts = { server, services, session, questions, wrap: wrapHandlers(onError, services.drainOver) };
  offerTools(parts);
  offerPrompts(parts);
  offerResources(parts);
  const notifiers: Record<keyof Lists, () => Promise<void>> = {
    tools: () => server.sendToolListChanged(),
    prompts: () => server.sendPromptListChanged(),
    resources: () => server.sendResourceListChanged(),
  };
  // A client without a stream gets no notification.
  const announce = (list: keyof Lists): void => void notifiers[list]().catch(() => undefined);
  const noteChange = (list: keyof Lists): void => {
    onChanged();
    announce(list);
  };
  const unwatch = watchLists(services, session, { asks: () => canElicit(server), onChanged: noteChange });
  const announceLists = (): void => (['tools', 'prompts', 'resources'] as const).forEach(announce);
  return { server, announceLists, unwatch };
}
