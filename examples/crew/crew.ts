/**
 * A crew of three agents: the planner talks to people, the worker works, the reviewer checks. It keeps nothing: the messages
 * that wait are in the sessions and every step has an id, so a crew that was killed continues where it was.
 */
import {
  connect,
  type HostToolGroup,
  type OwnTool,
  type Prompt,
  type Session,
  type SessionClient,
  type TranscriptMessage,
  type Turn,
  type Verdict,
} from '../../sdk/session/session.ts';
import { askModel } from './scripted-model.ts';

interface Agent {
  readonly instructions: string;
  readonly hostTools: readonly HostToolGroup[];
}
const agents: Readonly<Record<string, Agent>> = {
  planner: { instructions: 'You plan the orders of a bakery.', hostTools: ['todo', 'agent'] },
  worker: { instructions: 'You bake what the planner orders.', hostTools: ['todo', 'agent', 'notify', 'ssh'] },
  reviewer: { instructions: 'You check what was baked.', hostTools: ['todo', 'agent'] },
};
/** The trigger of a message, by its kind. All other messages are from people. */
const TRIGGERS = { agent_message: 'agent', reminder: 'schedule' } as const;
const COMPACT_AFTER = 6;
const RETRY_MS = 1_000;

const { BULKHEAD_URL = 'http://localhost:4010', BULKHEAD_TOKEN = '' } = process.env;
const client = connect({ url: BULKHEAD_URL, token: BULKHEAD_TOKEN, runtime: 'crew' });
const sessions = new Map<string, Session>();

/** A tool of the crew itself: it forgets what an agent talked about. */
const forget: OwnTool = {
  name: 'forget',
  description: 'Clears the conversation of an agent.',
  parameters: { type: 'object', properties: { agentId: { type: 'string' } }, required: ['agentId'] },
  isRepeatable: true,
  async run({ agentId }: { agentId: string }) {
    const session = await client.start({ agentId, key: agentId });
    await session.clear({ reason: 'the day is over', trigger: 'agent' });
    return `Forgot the conversation of the ${agentId}.`;
  },
};

/** The tools of a session are chosen once: a channel's starts without any. */
async function prepareSession(session: Session, { hostTools }: Agent): Promise<Session> {
  const known = sessions.get(session.id);
  if (known) return known;
  await session.offerTools({ hostTools, tools: [forget] });
  sessions.set(session.id, session);
  return session;
}

async function takeTurn(agentId: string, session: Session, message: TranscriptMessage, agent: Agent): Promise<void> {
  const trigger = TRIGGERS[message.data?.kind as keyof typeof TRIGGERS] ?? 'user';
  const compaction = { compactAfter: COMPACT_AFTER };
  const turn = await session.openTurn({
    id: message.id,
    trigger,
    systemPrompt: agent.instructions,
    prompt: compaction,
  });
  if (turn.record) requireJudged(turn.record);
  let prompt: Prompt | undefined = turn.record?.prompt;
  while (prompt) {
    requireJudged(prompt);
    const { text, calls } = askModel(agentId, prompt);
    for (const call of calls) await turn.call(call.id, call.name, call.arguments, { keepRunning: true });
    if (calls.length === 0) {
      await endTurn(turn, text);
      return;
    }
    prompt = await turn.prompt(compaction);
  }
}

/** Ends a turn with a text, or without it if a plugin stops the text. */
async function endTurn(turn: Turn, text: string): Promise<void> {
  const ended = await turn.end(text);
  requireJudged(ended);
  if (ended.action === 'cancel') await turn.end();
}

/** @throws Error if a required plugin does not run. The same step may pass later, so the message must stay in the inbox. */
function requireJudged({ action, isFinal, reason }: Verdict): void {
  if (action === 'cancel' && !isFinal) throw new Error(reason ?? 'A required plugin does not run.');
}

/** Answers the messages of an agent, one after another. */
async function work(agentId: string, agent: Agent, inbox: ReturnType<SessionClient['inbox']>): Promise<void> {
  for await (const { session, message } of inbox)
    await takeTurn(agentId, await prepareSession(session, agent), message, agent);
}

/** Goes on after a failure: messages without an answer stay in the inbox. */
async function workForEver(agentId: string, agent: Agent): Promise<void> {
  for (;;) {
    await work(agentId, agent, client.inbox({ agentId })).catch((error: Error) => console.error(error.message));
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

// An agent without a session gets no mail. The planner has a session for each conversation of the channel: mail to it names one.
for (const agentId of ['worker', 'reviewer']) await client.start({ agentId, key: agentId, strict: true });
console.log('ready');
await Promise.all(Object.entries(agents).map(([agentId, agent]) => workForEver(agentId, agent)));
