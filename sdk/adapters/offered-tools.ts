/** The session's tools for a model, and the plugins' skills and commands as two more tools, which are judged like the framework's own. */

import { failedResult } from '../session/own-tools.ts';
import type { Session, ToolResult } from '../session/session.ts';
import { openConversation } from './judged-conversation.ts';

interface CallOptions {
  /** The id that the model gave the call. */
  readonly callId?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}
export type ObjectSchema = { readonly type: 'object' } & Readonly<Record<string, unknown>>;
export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  /** The framework must get this very object: the adapter recognizes the tool by it. */
  readonly parameters: ObjectSchema;
  /** Calls the tool. An error that a model can correct is a result with `isError`. Aborting rejects with the signal's reason. */
  call(input: unknown, options: CallOptions): Promise<ToolResult>;
}

const NAME = { type: 'string', description: 'Its name, as listed.' };

/** @param completeSchema adds what the framework requires in the schema of a tool */
export async function listOfferedTools(
  session: Session,
  completeSchema = (schema: ObjectSchema): ObjectSchema => schema,
): Promise<OfferedTool[]> {
  const conversation = openConversation(session);
  const [listed, skills, commands] = await Promise.all([session.tools(), session.skills(), session.commands()]);
  // Tools without a function may be the framework's own, which the app gives to the model itself.
  const tools = listed.filter(({ name, performedBy }) => performedBy !== 'runtime' || session.canPerform(name));
  const offered = tools.map(
    ({ name, description, parameters }): OfferedTool => ({
      name,
      description,
      parameters: completeSchema({ ...parameters, type: 'object' }),
      call: (input, options) => conversation.callTool(name, input, options),
    }),
  );
  conversation.addOffered(offered.map(({ parameters, ...tool }) => ({ ...tool, schema: parameters })));
  if (skills.length > 0)
    offered.push({
      name: 'read_skill',
      description: `Reads a skill: instructions for a kind of task. Read it before you do such a task.\n${listOffers(skills)}`,
      parameters: completeSchema({ type: 'object', properties: { name: NAME }, required: ['name'] }),
      call: (input, { signal }) =>
        readText(async () => (await session.readSkill(readField(input, 'name'), { signal })).text, signal),
    });
  if (commands.length > 0)
    offered.push({
      name: 'run_command',
      description: `Runs a command and returns its text.\n${listOffers(commands)}`,
      parameters: completeSchema({
        type: 'object',
        properties: { name: NAME, input: { type: 'string', description: 'The text after the name of the command.' } },
        required: ['name'],
      }),
      call: (input, { signal }) =>
        readText(() => session.runCommand(readField(input, 'name'), readField(input, 'input'), { signal }), signal),
    });
  return offered;
}

const listOffers = (offers: readonly { readonly name: string; readonly description: string }[]): string =>
  offers.map(({ name, description }) => `- ${name}: ${description}`).join('\n');

function readField(input: unknown, field: string): string {
  const value = (input as Readonly<Record<string, unknown>> | null)?.[field];
  return typeof value === 'string' ? value : '';
}

/** A text, or why there is none in a form that the model can correct. */
async function readText(read: () => Promise<string>, signal: AbortSignal | undefined): Promise<ToolResult> {
  try {
    return { content: [{ type: 'text', text: await read() }], isError: false };
  } catch (error) {
    signal?.throwIfAborted();
    return failedResult((error as Error).message);
  }
}
