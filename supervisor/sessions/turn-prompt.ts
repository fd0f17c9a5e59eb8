/** Builds the input of a model in a turn: the judged system prompt, the messages after compaction, and all tools. */
import { findAgentRecord } from '../../db/accounts/agents.ts';
import { countBytes, isCutShort } from '../../db/postgres/rows.ts';
import { markRead } from '../../db/sessions/fresh-messages.ts';
import {
  findMessage,
  type JudgedMessage,
  type MessageRow,
  type Session,
  toMessage,
  toPlainMessage,
} from '../../db/sessions/sessions.ts';
import {
  addSummary,
  findSummary,
  listModelMessages,
  listOldestModelMessages,
  type SummaryRow,
} from '../../db/sessions/summaries.ts';
import type { TurnRow } from '../../db/sessions/turns.ts';
import { KIB } from '../../sdk/contract/limits.ts';
import { waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import type { Cancel } from '../calls/chain.ts';
import { readOutboundMode } from '../children/account-plugins-cache.ts';
import { summarizeTranscript } from './compaction.ts';
import { runSessionHook } from './hooks.ts';
import { judgeFreshMessages } from './message-judging.ts';
import type { SessionServices } from './session-services.ts';
import { listSessionTools } from './tools.ts';
import { CONTINUE, describeCancelled, requireHeldTurn, type TurnStep, type Verdict } from './turn-answers.ts';
import { holdDuring } from './turn-lease.ts';
import type { PromptAnswer, PromptRequest } from './turn-schemas.ts';

/** Maximum number of messages that a prompt has. */
const MESSAGES_MAX = 1_000;
/** A conversation of more takes milliseconds to answer. */
const COSTLY_BYTES = 256 * KIB;
/**
 * Summaries that one prompt has made of messages that are too old for it, before the one of its own messages. Each summary may take
 * 60 s, and `fetch` of Node gives up on a response after 300 s.
 */
const OLDER_SUMMARIES_MAX = 3;
const SUMMARY_HEAD = 'Summary of the conversation so far:\n';

/** @throws Problem `turn_held`, `turn_ended`, `cancelled`, `not_found` */
export async function readPrompt(
  services: SessionServices,
  { session, key, runtime }: TurnStep,
  request: PromptRequest,
): Promise<PromptAnswer> {
  const turn = await requireHeldTurn(services.pool, key, runtime);
  return holdDuring(services.pool, { key, runtime }, () => buildPrompt(services, session, turn, request));
}

/**
 * The prompt of a turn that the runtime holds.
 *
 * @param early the messages, read while that of the turn was written
 */
export async function buildPrompt(
  services: SessionServices,
  session: Session,
  turn: TurnRow,
  request: PromptRequest,
  early?: Promise<ConversationRows>,
): Promise<PromptAnswer> {
  const model = request.model ?? turn.model;
  const judgePrompt = async () => {
    const systemPrompt = request.systemPrompt ?? (await readBasePrompt(services, session, turn));
    const context = { systemPrompt, model };
    // A runtime requests the prompt again until it gets one.
    const options = { noticeId: `${turn.id}:prompt:vetoed` };
    return runSessionHook(services, session, 'middleware.systemPrompt', context, turn.trigger, options);
  };
  const [answer, conversation, tools, plugins] = await Promise.all([
    judgePrompt(),
    readConversation(services, session, turn, request, early).then((found) =>
      includeTurnMessage(services, session, turn, found),
    ),
    listSessionTools(services, session),
    services.pluginsCache.get(session.accountId),
  ]);
  const verdict = answer.cancelled ? describeCancelled(answer.cancelled) : conversation.verdict;
  if (verdict.action === 'cancel') return { ...NOTHING, ...verdict, turnId: turn.id, model, messages: [], tools: [] };
  const judged = answer.context as { systemPrompt: string };
  const { messages, isTruncated, notice, fresh } = conversation;
  if (fresh.length > 0) await markRead(services.pool, session.id, fresh);
  return {
    ...CONTINUE,
    turnId: turn.id,
    systemPrompt: judged.systemPrompt,
    model,
    messages,
    isTruncated,
    notice,
    tools,
    outbound: readOutboundMode(plugins),
  };
}

const NOTHING = { systemPrompt: '', isTruncated: false, notice: null, outbound: 'whole' } as const;

/** The system prompt of the turn; without one, the instructions of the account's agent. */
async function readBasePrompt({ pool }: SessionServices, session: Session, turn: TurnRow): Promise<string> {
  if (turn.systemPrompt !== '') return turn.systemPrompt;
  return (await findAgentRecord(pool, session.accountId, session.agentId))?.instructions ?? '';
}

interface Conversation extends Pick<PromptAnswer, 'messages' | 'isTruncated' | 'notice'> {
  readonly verdict: Verdict;
  /** Number of messages at the start that are a summary: 0 or 1. */
  readonly summaries: number;
  /** Ids of those that wait for their turns, and that no model has read yet. */
  readonly fresh: readonly string[];
}
const NO_MESSAGES = { messages: [], summaries: 0, isTruncated: false, notice: null, fresh: [] };

async function readConversation(
  services: SessionServices,
  session: Session,
  turn: TurnRow,
  { compactAfter, keep }: PromptRequest,
  early?: Promise<ConversationRows>,
): Promise<Conversation> {
  const read = early && addMessage(await early, turn);
  const found = await readJudgedRows(services, session, turn, read);
  const isShort = ({ stopped, rows }: JudgedRows): boolean =>
    stopped !== null || compactAfter === undefined || rows.length <= compactAfter;
  if (isShort(found)) return describeConversation(found);
  // Two prompts at once have one summary made. The lock of a message begins with the session, and a message may have any id.
  return services.turnLocks.run(`summary ${session.id}`, async () => {
    const current = await readJudgedRows(services, session, turn);
    if (isShort(current)) return describeConversation(current);
    return compact(services, session, turn, current, keep);
  });
}

/**
 * Adds the message of the turn, if a summary replaces it or newer messages left no room for it: a model answers that message, and
 * models reject a prompt without one.
 */
async function includeTurnMessage(
  { pool }: SessionServices,
  session: Session,
  turn: TurnRow,
  conversation: Conversation,
): Promise<Conversation> {
  const { messages, verdict, summaries } = conversation;
  if (verdict.action === 'cancel' || messages.some(({ id }) => id === turn.id)) return conversation;
  const row = await findMessage(pool, session.id, turn.id);
  // The session was cleared meanwhile.
  if (!row) return conversation;
  return { ...conversation, messages: messages.toSpliced(summaries, 0, toMessage(row)) };
}

export interface ConversationRows {
  readonly summary: SummaryRow | null;
  /** After the summary, oldest first. */
  readonly rows: readonly MessageRow[];
  readonly isTruncated: boolean;
}

export async function readConversationRows({ pool }: SessionServices, session: Session): Promise<ConversationRows> {
  const [summary, newest] = await Promise.all([
    findSummary(pool, session.id),
    listModelMessages(pool, session, MESSAGES_MAX + 1),
  ]);
  if (countBytes(newest) > COSTLY_BYTES) await waitForLoopTurn(session.accountId);
  const isTruncated = newest.length > MESSAGES_MAX || isCutShort(newest);
  return { summary, rows: newest.slice(0, MESSAGES_MAX).reverse(), isTruncated };
}

interface JudgedRows extends ConversationRows {
  /** A required plugin that did not judge one of them. */
  readonly stopped: Cancel | null;
}

/**
 * Reads the messages of a prompt. The required plugins judge those that wait for their turns, if no model has read them and one of
 * the plugins has not judged them.
 *
 * @param early read before
 */
async function readJudgedRows(
  services: SessionServices,
  session: Session,
  turn: TurnRow,
  early: ConversationRows | null = null,
): Promise<JudgedRows> {
  let found = early ?? (await readConversationRows(services, session));
  for (;;) {
    const { isChanged, stopped } = await judgeFreshMessages(services, session, turn, found.rows);
    if (!isChanged || stopped) return { ...found, stopped };
    found = await readConversationRows(services, session);
  }
}

/** The rows with the message of the turn, which was written in the same moment. Null: they must be read again. */
function addMessage(found: ConversationRows, { id, openedAt, message }: TurnRow): ConversationRows | null {
  if (found.rows.some((row) => row.id === id)) return found;
  if (message === null || found.rows.length >= MESSAGES_MAX) return null;
  const { text, data, judgement } = message;
  // The position is read by a compaction alone, which reads all again.
  const row: MessageRow = { id, role: 'user', text, at: openedAt, data, judgement, position: '', freshGuards: null };
  return { ...found, rows: [...found.rows, row] };
}

function describeConversation(
  { summary, rows, isTruncated, stopped }: JudgedRows,
  notice: string | null = null,
): Conversation {
  if (stopped) return { verdict: describeCancelled(stopped), ...NO_MESSAGES };
  const head = summary ? [toSummaryMessage(summary)] : [];
  const fresh = rows.filter(({ freshGuards }) => freshGuards !== null).map(({ id }) => id);
  const messages = [...head, ...rows.map(toMessage)];
  return { verdict: CONTINUE, messages, summaries: head.length, isTruncated, notice, fresh };
}

const toSummaryMessage = ({ upTo, text, at }: SummaryRow): JudgedMessage => ({
  id: `summary:${upTo}`,
  role: 'system',
  text: SUMMARY_HEAD + text,
  at,
  data: { kind: 'summary' },
});

/**
 * Has a plugin summarize the previous summary and all messages except the last ones. A summary replaces all messages before its
 * last one, so those that are too old for the prompt are summarized first. If they are too many for one prompt, it has neither
 * them nor the messages that follow them except the last ones, and the next prompt continues.
 */
async function compact(
  services: SessionServices,
  session: Session,
  turn: TurnRow,
  current: JudgedRows,
  keep: number,
): Promise<Conversation> {
  let found = current;
  for (let round = 0; found.isTruncated && round < OLDER_SUMMARIES_MAX; round++) {
    const oldest = await listOldestModelMessages(services.pool, session, MESSAGES_MAX);
    const cut = findOldestCut(oldest, found.rows, keep);
    if (cut === 0) break;
    const made = await summarize(services, session, turn, found, oldest.slice(0, cut));
    if ('conversation' in made) return made.conversation;
    found = made.after;
    if (found.stopped) return describeConversation(found);
  }
  const cut = findFirstKept(found.rows, keep);
  if (found.isTruncated) return describeConversation({ ...found, rows: found.rows.slice(cut) });
  if (cut === 0) return describeConversation(found);
  const made = await summarize(services, session, turn, found, found.rows.slice(0, cut));
  return 'conversation' in made ? made.conversation : describeConversation(made.after);
}

/**
 * Has a plugin summarize the previous summary and the messages after it.
 *
 * @returns `after`: the rows once the summary was added. `conversation`: there is no summary, or the session was locked too long
 */
async function summarize(
  services: SessionServices,
  session: Session,
  turn: TurnRow,
  current: JudgedRows,
  summarized: readonly MessageRow[],
): Promise<{ readonly after: JudgedRows } | { readonly conversation: Conversation }> {
  const { summary: previous } = current;
  const messages = [...(previous ? [toSummaryMessage(previous)] : []), ...summarized.map(toPlainMessage)];
  const answer = await summarizeTranscript(services, session, {
    messages,
    focus: null,
    trigger: turn.trigger,
    // Each prompt of a turn may summarize other messages, and fail for the same reason.
    noticeId: `${turn.id}:summary:vetoed`,
  });
  if (answer.action === 'cancel') {
    const isFinal = answer.trace.at(-1)?.outcome === 'cancelled';
    const { action, reason, cancelledBy } = answer;
    return { conversation: { verdict: { action, reason, cancelledBy, isFinal }, ...NO_MESSAGES } };
  }
  const { summary, notice, trace } = answer;
  if (summary === null) return { conversation: describeConversation(current, notice) };
  const installationId = trace[0]?.installationId ?? '';
  const added = { text: summary, installationId, previous, messages: summarized };
  const hadLock = await addSummary(services.pool, session, added);
  await services.faultPoint('turn.summarized');
  // What the summary was made of may have been cancelled or cleared meanwhile: then it was not added.
  const after = await readJudgedRows(services, session, turn);
  return hadLock ? { after } : { conversation: describeConversation(after) };
}

/**
 * How many of the oldest messages a summary replaces.
 *
 * @param rows the newest messages, of which the last `keep` stay
 */
function findOldestCut(oldest: readonly MessageRow[], rows: readonly MessageRow[], keep: number): number {
  const first = rows[findFirstKept(rows, keep)];
  if (first?.role === 'tool') return 0;
  const end = first ? oldest.findIndex(({ position }) => BigInt(position) >= BigInt(first.position)) : -1;
  if (end !== -1) return findCut(oldest, oldest.length - end);
  // Without the last one, so that the results of tools after it stay with what led to them, unless it is the only one.
  return findCut(oldest, 1) || findCut(oldest, 0);
}

/**
 * The index of the first message that stays. Results whose call is not in the rows are summarized, because models reject them, unless
 * all rows are results: the model has not read those of its last calls.
 */
function findFirstKept(rows: readonly MessageRow[], keep: number): number {
  const cut = findCut(rows, rows.at(-1)?.role === 'tool' ? Math.max(keep, 1) : keep);
  if (rows[cut]?.role !== 'tool') return cut;
  return Math.max(
    0,
    rows.findIndex(({ role }) => role !== 'tool'),
  );
}

/**
 * How many messages a summary replaces so that the last `keep` stay. Fewer, if it would replace a message that waits and that no
 * model has read: plugins that become required before a model reads it must judge it. Fewer also before the results of tools:
 * models reject a result without what led to it.
 */
function findCut(rows: readonly MessageRow[], keep: number): number {
  const fresh = rows.findIndex(({ freshGuards }) => freshGuards !== null);
  let cut = Math.max(0, Math.min(rows.length - keep, fresh === -1 ? rows.length : fresh));
  while (cut > 0 && rows[cut]?.role === 'tool') cut -= 1;
  return cut;
}
