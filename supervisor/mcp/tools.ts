/** Offers tools over the Model Context Protocol. */
import { randomUUIDv7 } from 'node:crypto';
import {
  type CallToolRequest,
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { hostToolGroups } from '../../sdk/contract/full-names.ts';
import { isRecord } from '../../sdk/contract/is-record.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';
import { waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { addUnconfigured, type ToolRef } from '../children/account-plugins-cache.ts';
import { findHostTool } from '../host-tools/catalog.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { describeProblem, failedTool } from '../sessions/tool-results.ts';
import { callTool, type FoundTool, findTool, listOfferedTools } from '../sessions/tools.ts';
import type { ServerParts } from './server-parts.ts';
import { canElicit, describeCall, type HandlerExtra } from './setup-questions.ts';

/** Interval of progress notifications to clients that requested them. Milliseconds. */
const PROGRESS_EVERY_MS = 2_000;
/** Host calls that reach outside the service, for the tool annotation `openWorldHint`. */
const OPEN_WORLD = /^host\.(http:|ssh|llm)/;
/** Groups of the host's own tools that do. */
const OPEN_WORLD_GROUPS: ReadonlySet<string> = new Set<(typeof hostToolGroups)[number]>(['ssh']);

export function offerTools({ server, services, session: opened, questions, wrap }: ServerParts): void {
  // The runtime may have turned tools of the host off since the connection was opened.
  const readSession = (): Promise<Session> => services.sessions.get(opened.accountId, opened.id);
  const listTools = async () => ({ tools: await describeTools(services, await readSession(), canElicit(server)) });
  server.setRequestHandler(ListToolsRequestSchema, wrap(listTools));
  const call = async ({ params }: CallToolRequest, extra: HandlerExtra): Promise<CallToolResult> => {
    const { signal, sendNotification } = extra;
    const session = await readSession();
    const waiting = await findUnconfiguredTool(services, session, params.name);
    const refusal = waiting ? await questions.configure(waiting.plugin, describeCall(server, extra)) : null;
    if (refusal !== null) return { content: [{ type: 'text', text: refusal }], isError: true };
    const tool = await requireTool(services, session, params.name);
    const token = params._meta?.progressToken;
    const started = Date.now();
    const reportProgress = (): void => {
      const progress = Math.round((Date.now() - started) / 1_000);
      const notification = { progressToken: token ?? '', progress, message: `${params.name} is running` };
      sendNotification({ method: 'notifications/progress', params: notification }).catch(() => undefined);
    };
    const timer = token === undefined ? undefined : setInterval(reportProgress, PROGRESS_EVERY_MS);
    try {
      const made = { callId: randomUUIDv7(), arguments: params.arguments ?? {}, signal };
      return toMcp((await callTool(services, session, tool, made)).result);
    } catch (error) {
      return toToolError(error);
    } finally {
      clearInterval(timer);
    }
  };
  server.setRequestHandler(CallToolRequestSchema, wrap(call));
}

/** A client that can ask its user is also offered the tools of plugins that only lack configuration. */
async function describeTools({ pluginsCache }: SessionServices, session: Session, asks: boolean): Promise<Tool[]> {
  const ready = await pluginsCache.get(session.accountId);
  // A list of 4 MiB takes tens of milliseconds.
  await waitForLoopTurn(session.accountId);
  const offered = asks ? addUnconfigured(ready) : ready;
  const { tools } = offered;
  return listOfferedTools(offered, session).map(({ name, description, parameters, installationId, slug }) => {
    const ref = installationId === null ? undefined : tools.get(name);
    const isOpenWorld = ref?.plugin.granted.some((grant) => OPEN_WORLD.test(grant)) ?? OPEN_WORLD_GROUPS.has(slug);
    return {
      name,
      title: `${ref?.tool ?? name} (${slug})`,
      description,
      // The protocol requires a schema of type object; a schema without a type accepts objects, too.
      inputSchema: { ...(parameters as object), type: 'object' as const },
      annotations: { openWorldHint: isOpenWorld },
    };
  });
}

function toMcp({ content, isError, isFinal }: ToolResult): CallToolResult {
  const parts = content.map((part) =>
    part.type === 'json' ? { type: 'text' as const, text: JSON.stringify(part.json) } : part,
  );
  const objects = content.flatMap((part) => (part.type === 'json' && isRecord(part.json) ? [part.json] : []));
  const [only] = objects;
  return {
    content: parts,
    isError,
    ...(objects.length === 1 && only ? { structuredContent: only } : {}),
    ...(isFinal === undefined ? {} : { _meta: { isFinal } }),
  };
}

/** An error that the model can correct becomes a tool result; all others become protocol errors. */
function toToolError(error: unknown): CallToolResult {
  if (!(error instanceof Problem) || error.code === 'internal') throw error;
  return toMcp(failedTool(describeProblem(error.message, error.errors)));
}

/** A tool that can be called as soon as its plugin is configured. */
async function findUnconfiguredTool(
  { pluginsCache }: SessionServices,
  session: Session,
  name: string,
): Promise<ToolRef | undefined> {
  const accountPlugins = await pluginsCache.get(session.accountId);
  if (findHostTool(session, name) || accountPlugins.tools.has(name)) return undefined;
  return addUnconfigured(accountPlugins).tools.get(name);
}

/** An unknown tool is a protocol error that names the nearest tool. */
async function requireTool(services: SessionServices, session: Session, name: string): Promise<FoundTool> {
  try {
    return await findTool(services, session, name, false);
  } catch (error) {
    throw error instanceof Problem ? new McpError(ErrorCode.InvalidParams, error.message) : error;
  }
}
