/** Opens and ends turns of agents. Each step is written before it is answered, so that it can be repeated by its ids. */
import { requireRoom } from '../../db/accounts/usage.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { findReplyAddress } from '../../db/sessions/conversations.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import {
  findLastOutput,
  type JudgedOutput,
  type OutputKey,
  passLastOutput,
  passOutput,
} from '../../db/sessions/turn-outputs.ts';
import {
  claimTurn,
  endCompleteTurn,
  endTurn,
  findTurn,
  forgetTurn,
  hasTurnOrMessage,
  holdTurn,
  LEASE_SPARE_PART,
  type NewTurn,
  openJudgedTurn,
  openTurnOfMessage,
  openTurnWithMessage,
  type TurnKey,
  type TurnMessage,
  type TurnRow,
  vetoTurn,
} from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Cancel } from '../calls/chain.ts';
import { holdAttachments, listMediaIds } from '../calls/message-hook.ts';
import {
  type InboundMessage,
  isJudgedAgain,
  type JudgedMessage,
  judgeMessage,
  keepJudgedFiles,
  readSent,
  toInboundMessage,
} from './message-judging.ts';
import { queueReply } from './replies.ts';
import type { SessionServices } from './session-services.ts';
import {
  CONTINUE,
  createHeldProblem,
  createReusedProblem,
  describeCancelled,
  digestOf,
  explainRefusal,
  forgetUnkept,
  readVerdict,
  type TurnStep,
  type Verdict,
} from './turn-answers.ts';
import { holdDuring } from './turn-lease.ts';
import { chooseLastOutputId, finishOutputs, requireNewOutput, sendWholeOutput } from './turn-outputs.ts';
import { buildPrompt, type ConversationRows, readConversationRows } from './turn-prompt.ts';
import type { OpenedTurn, TurnAnswer, TurnEnd, TurnRequest } from './turn-schemas.ts';

/** A longer system prompt is refused where the account has no room for it. */
const SMALL_PROMPT_CHARS = 8_192;

/**
 * Judges a message, adds it to the transcript and opens the turn that answers it. A repeated call with the same id returns the
 * same turn and judges nothing twice.
 *
 * @throws Problem `turn_held`, `turn_ended`, `id_reused`, `not_found`, `quota_exceeded`
 */
export async function openTurn(
  services: SessionServices,
  session: Session,
  { prompt, ...request }: TurnRequest,
  runtime: string,
): Promise<OpenedTurn> {
  // A request that is sent twice at once is judged once.
  const { row, stopped, conversation } = await services.turnLocks.run(`${session.id} ${request.id}`, () =>
    claimAndJudge(services, session, request, runtime, prompt !== null),
  );
  const turn = { ...describeTurn(row), ...(stopped ? describeCancelled(stopped) : {}) };
  if (!prompt || row.state !== 'open') return turn;
  const step = { key: { sessionId: session.id, turnId: row.id }, runtime };
  const build = () => buildPrompt(services, session, row, prompt, conversation);
  return { ...turn, prompt: await holdDuring(services.pool, step, build) };
}

interface JudgedTurn {
  readonly row: TurnRow;
  /** A required plugin that did not run. */
  readonly stopped?: Cancel;
  /** The messages before, read while a new turn was written. */
  readonly conversation?: Promise<ConversationRows>;
}
type NewRequest = Omit<TurnRequest, 'prompt'>;

async function claimAndJudge(
  services: SessionServices,
  session: Session,
  request: NewRequest,
  runtime: string,
  isPromptNext: boolean,
): Promise<JudgedTurn> {
  const { pool } = services;
  const key = { sessionId: session.id, turnId: request.id };
  const { from: sender, text, attachments, trigger, ...fields } = request;
  const digest = digestOf([sender, text ?? null, attachments, trigger]);
  const turn = { ...fields, sender, trigger, digest, runtime };
  if (turn.systemPrompt.length > SMALL_PROMPT_CHARS)
    await requireRoom(pool, session.accountId, 'transcripts', turn.systemPrompt.length);
  // A new turn is written when its message is judged: the lock keeps others of this id away, and one write is faster than two.
  const isKnown = await hasTurnOrMessage(pool, key);
  const judged = isKnown ? null : await judgeRequested(services, session, request, null);
  if (judged && !judged.answer.cancelled) {
    const conversation = isPromptNext ? readConversationRows(services, session) : undefined;
    // Awaited by the prompt, unless the turn is not new.
    conversation?.catch(() => undefined);
    const openedAt = performance.now();
    const row = await addWithFiles(services, session, request, judged, (given) =>
      openNewTurn(services, session, turn, given),
    );
    if (row) services.untouchedTurns.add(key, runtime, openedAt + turn.leaseSeconds * 1_000 * LEASE_SPARE_PART);
    if (row) return { row, ...(conversation ? { conversation } : {}) };
  }
  const hasText = text !== undefined;
  const claimed = await claimTurn(pool, session.id, turn, hasText);
  if (!claimed) throw new Problem('not_found', 'You have no session with this id.');
  const isOver = claimed.state !== 'judging' && claimed.state !== 'open';
  if (claimed.runtime !== runtime && !isOver) throw createHeldProblem(claimed);
  if (claimed.state === 'cleared') throw await explainRefusal(pool, key);
  // Without a text, the request is for the message of the turn, which plugins may have changed.
  const isSame = claimed.digest === digest || (!hasText && claimed.trigger === trigger);
  if (!isSame) throw createReusedProblem('a turn');
  await services.faultPoint('turn.claimed');
  if (claimed.state !== 'judging') return { row: claimed };
  return judgeClaimed(services, session, key, request, claimed, judged).catch((error) =>
    forgetUnkept(error, () => forgetTurn(pool, key)),
  );
}

function judgeRequested(
  services: SessionServices,
  session: Session,
  request: NewRequest,
  known: TurnMessage | null,
): Promise<JudgedMessage> {
  const { trigger } = request;
  const message = toInboundMessage(request, known);
  // A channel's attachments were checked when the message came. One that is missing now must not stop the turn.
  const requiresFiles = message.attachments === request.attachments;
  return judgeMessage(services, session, message, { trigger, before: known?.judgement, requiresFiles });
}

const describeData = ({ id, from, attachments }: InboundMessage) => ({ from, attachments, turnId: id });

/**
 * Has `add` add a judged message. If the session does not hold its files any more, because it was cleared, it holds them again, and
 * `add` runs once more without those of plugins that do not exist any more.
 *
 * @param add null: it has added nothing
 * @throws Problem `bad_request` for a file of the request that does not exist any more
 */
async function addWithFiles<Added>(
  { pool }: SessionServices,
  session: Session,
  request: NewRequest,
  judged: JudgedMessage,
  add: (judged: JudgedMessage) => Promise<Added | null>,
): Promise<Added | null> {
  const added = await add(judged);
  const { message } = judged;
  if (added !== null || listMediaIds(message.attachments).length === 0) return added;
  const attachments = await holdAttachments(pool, session, message.attachments, request.attachments);
  return add({ ...judged, message: { ...message, attachments } });
}

/** Null: the id is known meanwhile, the session was deleted, or it does not hold a file any more. */
async function openNewTurn(
  services: SessionServices,
  session: Session,
  turn: NewTurn,
  { judgement, message }: JudgedMessage,
): Promise<TurnRow | null> {
  const data = describeData({ ...message, id: turn.id });
  const mediaIds = listMediaIds(message.attachments);
  const added = { text: message.text, data, mediaIds };
  const opened = await openJudgedTurn(services.pool, session.id, turn, judgement, added);
  if (!opened) return null;
  await services.faultPoint('turn.opened');
  return { ...opened, message: { id: turn.id, role: 'user', text: message.text, data, judgement } };
}

/** @param judgedBefore what plugins made of a message that was new when it was judged */
async function judgeClaimed(
  services: SessionServices,
  session: Session,
  key: TurnKey,
  request: NewRequest,
  claimed: TurnRow,
  judgedBefore: JudgedMessage | null,
): Promise<JudgedTurn> {
  const { pool } = services;
  const { runtime, message: known } = claimed;
  if (known && known.role !== 'user') throw createReusedProblem('a message of the transcript');
  if (known?.judgement?.outcome === 'cancelled') {
    // In the prompt of another turn.
    const endedAt = await vetoTurn(pool, key, runtime, known.judgement);
    if (endedAt === null) throw await explainRefusal(pool, key);
    return { row: { ...claimed, state: 'vetoed', endedAt, judgement: known.judgement, message: null } };
  }
  if (known?.judgement && !(await isJudgedAgain(services, session, known.guards ?? null))) {
    // A channel's message was judged when it came in.
    const leaseUntil = await openTurnOfMessage(pool, key, runtime, known.judgement, null);
    if (leaseUntil === null) throw await explainRefusal(pool, key);
    return { row: { ...claimed, state: 'open', leaseUntil, judgement: known.judgement } };
  }
  const judged = judgedBefore && !known ? judgedBefore : await judgeRequested(services, session, request, known);
  const { answer, judgement } = judged;
  if (answer.cancelled?.cause === 'failure') return { row: claimed, stopped: answer.cancelled };
  if (answer.cancelled) {
    await requireRoom(pool, session.accountId, 'transcripts', 0);
    const endedAt = await vetoTurn(pool, key, runtime, judgement);
    if (endedAt === null) throw await explainRefusal(pool, key);
    return { row: { ...claimed, state: 'vetoed', endedAt, judgement, message: null } };
  }
  const open = async ({ message }: JudgedMessage): Promise<TurnRow | null> => {
    const { text } = message;
    const data = describeData({ ...message, id: request.id });
    const mediaIds = listMediaIds(message.attachments);
    const leaseUntil = known
      ? await openTurnOfMessage(pool, key, runtime, judgement, { text, data: keepJudgedFiles(known, message) })
      : await openTurnWithMessage(pool, key, runtime, judgement, { text, data, mediaIds });
    const kept: TurnMessage = { id: request.id, role: 'user', text, data, judgement };
    return leaseUntil === null ? null : { ...claimed, state: 'open', leaseUntil, judgement, message: kept };
  };
  const row = known ? await open(judged) : await addWithFiles(services, session, request, judged, open);
  if (row === null) throw await explainRefusal(pool, key);
  await services.faultPoint('turn.opened');
  return { row };
}

export function describeTurn(turn: TurnRow): TurnAnswer {
  const { id, sessionId, state, trigger, message, runtime, leaseUntil, openedAt, endedAt, replyId } = turn;
  const sent = message && readSent(message);
  return {
    ...readVerdict(turn.judgement),
    id,
    sessionId,
    state,
    trigger,
    message:
      state === 'judging' || state === 'vetoed' || message === null || sent === null
        ? null
        : {
            id,
            from: sent.from ?? turn.sender,
            text: message.text,
            attachments: sent.attachments,
            judgement: message.judgement,
          },
    lease: { runtime, until: leaseUntil },
    openedAt,
    endedAt,
    replyId,
  };
}

/** @throws Problem `not_found` */
export async function requireTurn({ pool }: SessionServices, key: TurnKey): Promise<TurnRow> {
  const turn = await findTurn(pool, key);
  if (!turn) throw new Problem('not_found', 'This session has no turn with this id.');
  return turn;
}

/**
 * Completes the outputs whose last piece did not come, judges and adds the last text, ends the turn, and sends its last output to
 * the channel of the session. A text that a plugin cancels leaves the turn open, so that the agent can end it with other words.
 *
 * @throws Problem `turn_held`, `turn_ended`, `id_reused`, `not_found`, `quota_exceeded`
 */
export function endTurnWith(services: SessionServices, step: TurnStep, end: TurnEnd): Promise<TurnAnswer> {
  // Of several requests at once, the first one ends the turn. Other locks begin with the id of a session, so no key is the same.
  const lock = `end ${step.key.sessionId} ${step.key.turnId}`;
  return services.turnLocks.run(lock, () => endLockedTurn(services, step, end));
}

async function endLockedTurn(services: SessionServices, step: TurnStep, end: TurnEnd): Promise<TurnAnswer> {
  const { pool } = services;
  const { session, key, runtime } = step;
  let ended: TurnRow | null = null;
  // Their results would follow the next message of the user. Another runtime's calls go on.
  if (services.runningCalls.hasTurn(key) && (await holdTurn(pool, key, runtime)))
    await services.runningCalls.abort(key, 'the runtime ended the turn');
  const isUntouched = services.untouchedTurns.take(key, runtime);
  const isNew = isUntouched && session.channelId === null;
  // Open outputs precede the last text, which is not added while one of them cannot be judged.
  const finished = isNew ? CONTINUE : await finishOutputs(services, step, end.target);
  if (finished.action === 'cancel') return describeOpenTurn(services, key, finished);
  // Without a channel, one statement adds the text and ends the turn.
  const save = async (output: OutputKey, row: JudgedOutput): Promise<boolean> => {
    if (session.channelId !== null || row.text === '') return passOutput(pool, output, runtime, row);
    ended = await passLastOutput(pool, output, runtime, row);
    if (ended === null && isNew) await requireNewOutput(services, output, runtime);
    return ended !== null || passOutput(pool, output, runtime, row);
  };
  const { text, attachments, target, outputId } = end;
  if (text !== undefined) {
    const id = outputId ?? (isUntouched ? undefined : await chooseLastOutputId(services, step, { text, attachments }));
    const verdict = await sendWholeOutput(services, step, { id, text, attachments, target, save, isNew });
    if (verdict.action === 'cancel') return describeOpenTurn(services, key, verdict);
  }
  // Nor does such a turn need more to end, unless an output was streamed and not completed.
  if (session.channelId === null) ended ??= await endCompleteTurn(pool, key, runtime);
  if (ended) {
    await services.faultPoint('turn.ended');
    return describeTurn(ended);
  }
  return endWithReply(services, step, end);
}

/** A turn that does not end, because its last text was cancelled or could not be judged. */
async function describeOpenTurn(
  services: SessionServices,
  key: TurnKey,
  { action, reason, cancelledBy, isFinal }: Verdict,
): Promise<TurnAnswer> {
  return { ...describeTurn(await requireTurn(services, key)), action, reason, cancelledBy, isFinal };
}

async function endWithReply(services: SessionServices, step: TurnStep, end: TurnEnd): Promise<TurnAnswer> {
  const { pool } = services;
  const { session, key, runtime } = step;
  // Pieces may have come while the last text was judged.
  const verdict = await finishOutputs(services, step, end.target);
  if (verdict.action === 'cancel') return describeOpenTurn(services, key, verdict);
  const reply = await findLastOutput(pool, key);
  const isSent = end.reply && session.channelId !== null;
  const address = isSent ? await findReplyAddress(pool, session.id) : null;
  const ended =
    address && reply
      ? await inTransaction(pool, async (tx) => {
          const turn = await endTurn(tx, key, runtime, reply.id);
          if (!turn) return null;
          const { text, attachments, guards } = reply;
          await queueReply(tx, address, { text: text ?? '', attachments: attachments ?? [], guards });
          await services.faultPoint('turn.replied');
          return turn;
        })
      : await endTurn(pool, key, runtime, reply?.id ?? null);
  await services.faultPoint('turn.ended');
  if (ended) return describeTurn(ended);
  const turn = await requireTurn(services, key);
  if (turn.state !== 'ended') throw await explainRefusal(pool, key);
  return describeTurn(turn);
}
