/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` of the agent. */
import { type AgentInputItem, type OutputGuardrail, type RunConfig, type Tool, tool } from '@openai/agents';
import type { Session } from '../session/session.ts';
import { asSummary, type PlainMessage, Turn, type TurnOptions, toolAnswer, VetoError } from './turn.ts';

type Filter = NonNullable<RunConfig['callModelInputFilter']>;

/**
 * Settings of a run that pass each model call through the plugins. The framework lets nobody change a final answer: a
 * plugin's veto trips a guardrail, and what it would change is in the guardrail's `outputInfo`.
 *
 * @throws VetoError out of `run` when a plugin stops what the user wrote
 */
export function bulkhead(
  session: Session,
  options: TurnOptions = {},
): { callModelInputFilter: Filter; outputGuardrails: OutputGuardrail[] } {
  const turn = new Turn(session, options);
  return {
    async callModelInputFilter({ modelData, agent }) {
      const model = typeof agent.model === 'string' ? agent.model : 'unknown';
      const input = await compacted(turn, modelData.input);
      return {
        instructions: await turn.systemPrompt(modelData.instructions ?? '', model),
        input: await Promise.all(input.map((item) => passed(turn, item))),
      };
    },
    outputGuardrails: [{ name: 'Bulkhead', execute: ({ agentOutput }) => judge(turn, agentOutput) }],
  };
}

/** The session's tools as the Agents SDK's. */
export async function bulkheadTools(session: Session): Promise<Tool[]> {
  return (await session.tools()).map(({ name, description, parameters }) =>
    tool({
      name,
      description,
      strict: false,
      parameters: { type: 'object', properties: {}, required: [], ...parameters, additionalProperties: true } as never,
      execute: async (input) => toolAnswer(await session.callTool(name, input)),
    }),
  );
}

async function judge(turn: Turn, output: unknown) {
  try {
    const text = await turn.outbound(typeof output === 'string' ? output : JSON.stringify(output));
    return { tripwireTriggered: false, outputInfo: { text } };
  } catch (error) {
    if (!(error instanceof VetoError)) throw error;
    return { tripwireTriggered: true, outputInfo: { plugin: error.plugin, reason: error.reason } };
  }
}

/** What the user wrote passes the plugins; other items were seen when they were made. */
async function passed(turn: Turn, item: AgentInputItem): Promise<AgentInputItem> {
  if (!('role' in item) || item.role !== 'user') return item;
  if (typeof item.content === 'string') return { ...item, content: await inbound(turn, item.content) };
  const content = item.content.map(async (part) =>
    part.type === 'input_text' ? { ...part, text: await inbound(turn, part.text) } : part,
  );
  return { ...item, content: await Promise.all(content) };
}

const inbound = async (turn: Turn, text: string): Promise<string> =>
  text.startsWith(asSummary('')) ? text : turn.inbound(text);

async function compacted(turn: Turn, items: AgentInputItem[]): Promise<AgentInputItem[]> {
  const done = await turn.compact(items.map(plain));
  if (!done) return items;
  return [{ role: 'user', content: asSummary(done.summary) }, ...items.slice(done.replaced)];
}

function plain(item: AgentInputItem): PlainMessage {
  if (!('role' in item) || item.role === undefined) {
    return { role: item.type === 'function_call_result' ? 'tool' : 'assistant', text: JSON.stringify(item) };
  }
  const { content, role } = item;
  if (typeof content === 'string') return { role, text: content };
  return { role, text: content.map((part) => ('text' in part ? part.text : `[${part.type}]`)).join('\n') };
}

export { VetoError } from './turn.ts';
