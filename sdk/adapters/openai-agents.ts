/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` of the agent. */
import { type AgentInputItem, type OutputGuardrail, type RunConfig, type Tool, tool } from '@openai/agents';
import type { Session } from '../session/session.ts';
import {
  formatSummary,
  formatToolOutcome,
  isSummary,
  type PlainMessage,
  Turn,
  type TurnOptions,
  VetoError,
} from './turn.ts';

type Filter = NonNullable<RunConfig['callModelInputFilter']>;

/**
 * Run settings that run the plugins' hooks on each model call. The framework does not allow changing a final output: a
 * plugin that cancels it trips a guardrail, and the text it would change is in the guardrail's `outputInfo`.
 *
 * @throws VetoError from `run` when a plugin cancels a user message
 */
export function bulkhead(
  session: Session,
  options: TurnOptions = {},
): { callModelInputFilter: Filter; outputGuardrails: OutputGuardrail[] } {
  const turn = new Turn(session, options);
  return {
    async callModelInputFilter({ modelData, agent }) {
      const model = typeof agent.model === 'string' ? agent.model : 'unknown';
      const input = await compactItems(turn, modelData.input);
      return {
        instructions: await turn.systemPrompt(modelData.instructions ?? '', model),
        input: await Promise.all(input.map((item) => runInbound(turn, item))),
      };
    },
    outputGuardrails: [{ name: 'Bulkhead', execute: ({ agentOutput }) => runOutbound(turn, agentOutput) }],
  };
}

/** Returns the session's tools as Agents SDK tools. */
export async function bulkheadTools(session: Session): Promise<Tool[]> {
  return (await session.tools()).map(({ name, description, parameters }) =>
    tool({
      name,
      description,
      strict: false,
      parameters: { type: 'object', properties: {}, required: [], ...parameters, additionalProperties: true } as never,
      execute: async (input) => formatToolOutcome(await session.callTool(name, input)),
    }),
  );
}

async function runOutbound(turn: Turn, output: unknown) {
  try {
    const text = await turn.outbound(typeof output === 'string' ? output : JSON.stringify(output));
    return { tripwireTriggered: false, outputInfo: { text } };
  } catch (error) {
    if (!(error instanceof VetoError)) throw error;
    return { tripwireTriggered: true, outputInfo: { plugin: error.plugin, reason: error.reason } };
  }
}

/** Runs `inboundMessage` on user messages. Other items ran through their hooks when they were created. */
async function runInbound(turn: Turn, item: AgentInputItem): Promise<AgentInputItem> {
  if (!('role' in item) || item.role !== 'user') return item;
  if (typeof item.content === 'string') return { ...item, content: await runInboundText(turn, item.content) };
  const content = item.content.map(async (part) =>
    part.type === 'input_text' ? { ...part, text: await runInboundText(turn, part.text) } : part,
  );
  return { ...item, content: await Promise.all(content) };
}

const runInboundText = async (turn: Turn, text: string): Promise<string> =>
  isSummary(text) ? text : turn.inbound(text);

async function compactItems(turn: Turn, items: AgentInputItem[]): Promise<AgentInputItem[]> {
  const compaction = await turn.compact(items.map(toPlainMessage));
  if (!compaction) return items;
  return [{ role: 'user', content: formatSummary(compaction.summary) }, ...items.slice(compaction.replaced)];
}

function toPlainMessage(item: AgentInputItem): PlainMessage {
  if (!('role' in item) || item.role === undefined) {
    return { role: item.type === 'function_call_result' ? 'tool' : 'assistant', text: JSON.stringify(item) };
  }
  const { content, role } = item;
  if (typeof content === 'string') return { role, text: content };
  return { role, text: content.map((part) => ('text' in part ? part.text : `[${part.type}]`)).join('\n') };
}

export { VetoError } from './turn.ts';
