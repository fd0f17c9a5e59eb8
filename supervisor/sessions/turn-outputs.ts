/**
 * Texts of an agent in a turn: judged before anybody sees them. While no plugin judges messages, pieces may be shown as the
 * model writes them; the whole is judged at its end all the same, for plugins that were installed meanwhile. While all
 * plugins that judge messages do so piece by piece, each piece may be shown when it is judged.
 */
import { randomUUID } from 'node:crypto';
import type { Pool } from 'pg';
import type { z } from 'zod';
import { requireRoom } from '../../db/accounts/usage.ts';
import { findConversationKey } from '../../db/sessions/conversations.ts';
import { appendNotices, hasMessage, type Session } from '../../db/sessions/sessions.ts';
import {
  addPiece,
  findOutput,
  findPiece,
  holdNewOutput,
  isFollowedByOutput,
  type JoinedPieces,
  type JudgedOutput as JudgedOutputRow,
  joinPieces,
  listUnfinishedOutputs,
  type OutputKey,
  type OutputRow,
  type PieceRow,
  passOutput,
  passPiece,
  renameOutput,
  vetoOutput,
} from '../../db/sessions/turn-outputs.ts';
import type { Judgement } from '../../db/sessions/turns.ts';
import { describeCancel, Problem } from '../../sdk/contract/errors.ts';
import {
  BEFORE_MAX_CHARS,
  type outbound,
  type partial as partialOf,
  TEXT_MAX_CHARS,
} from '../../sdk/contract/payloads.ts';
import { createBadRequest } from '../../service/http/errors.ts';
import { digestGuards, hasNewGuard } from '../calls/guards.ts';
import { mergeJudgements, toJudgement } from '../calls/judgement.ts';
import { readOutboundMode } from '../children/account-plugins-cache.ts';
import { runMessageHook } from './hooks.ts';
import type { SessionServices } from './session-services.ts';
import {
  CONTINUE,
  createReusedProblem,
  describeCancelled,
  digestOf,
  explainRefusal,
  readVerdict,
  requireHeldTurn,
  type TurnStep,
  type Verdict,
} from './turn-answers.ts';
import { type OutputAnswer, type OutputRequest, STEP_ID_MAX_CHARS } from './turn-schemas.ts';

const HOOK = 'middleware.outboundMessage';
/** Characters of a digest that make the default id of an output. */
const DIGEST_CHARS = 22;

/** The id of an output to which the runtime gave none. A turn has the id of its message, which may leave no room for more. */
const deriveOutputId = (turnId: string, suffix: string): string =>
  `${turnId.length > STEP_ID_MAX_CHARS ? digestOf(turnId) : turnId}:${suffix}`;

const deriveWholeId = (turnId: string, digest: string): string => deriveOutputId(turnId, digest.slice(0, DIGEST_CHARS));

/**
 * The id of the text that ends a turn, if the runtime gave none. An earlier output may have the same text: then this is another
 * message, and it is the reply. If that output is the last one, the request repeats it.
 */
export async function chooseLastOutputId(
  { pool }: SessionServices,
  { key }: TurnStep,
  { text, attachments }: Pick<OutputRequest, 'text' | 'attachments'>,
): Promise<string> {
  const derived = deriveWholeId(key.turnId, digestOf([text, attachments]));
  let outputId = derived;
  for (let number = 2; await isFollowedByOutput(pool, { ...key, outputId }); number++)
    outputId = `${derived}:${number}`;
  return outputId;
}

interface WholeOutput extends Omit<OutputRequest, 'piece' | 'done' | 'isShown'> {
  readonly isShown?: boolean;
  /** Adds the judged text to the transcript. False: the runtime may not continue the turn. */
  readonly save?: ((key: OutputKey, output: JudgedOutputRow) => Promise<boolean>) | undefined;
  /** Whether this is known to be the first output of a turn that the runtime holds. `save` must detect it if that is wrong. */
  readonly isNew?: boolean | undefined;
}

/** @throws Problem `turn_held`, `turn_ended`, `id_reused`, `not_found`, `quota_exceeded` */
export function sendWholeOutput(
  services: SessionServices,
  turn: TurnStep,
  { id, text, attachments, target, isShown = false, save, isNew = false }: WholeOutput,
): Promise<OutputAnswer> {
  const shown = isShown ? text : '';
  const digest = digestOf([text, attachments]);
  const step = toOutputStep(turn, id ?? deriveWholeId(turn.key.turnId, digest));
  const { key, runtime } = step;
  return withLock(services, key, async () => {
    services.untouchedTurns.take(key, runtime);
    if (!isNew && !(await holdNewOutput(services.pool, key, runtime))) {
      const known = await requireOutput(services, key);
      if (known.digest !== digest) throw createReusedProblem('an output of this turn');
      if (known.state !== 'open') return describeOutput(known, shown.length);
      await requireHeldTurn(services.pool, key, runtime);
    }
    return judgeOutput(services, step, { text, attachments, target, digest, shown, save });
  });
}

interface OutputStep extends TurnStep {
  readonly key: OutputKey;
}

const toOutputStep = (turn: TurnStep, outputId: string): OutputStep => ({ ...turn, key: { ...turn.key, outputId } });

interface OutputPiece extends Omit<WholeOutput, 'isShown' | 'save' | 'isNew'> {
  readonly piece: number;
  /** Whether this is the last piece. */
  readonly done: boolean;
}

/**
 * The check of the quota takes longer than the rest of a step, so it is made for one of so many pieces, and for what is longer than
 * a few sentences. An account may have any number of open outputs, so a check of the first pieces would limit nothing.
 */
const PIECES_PER_CHECK = 16;
const UNCHECKED_MAX_CHARS = 1_024;

/** @throws Problem `quota_exceeded` for a new piece; one that is stored takes no more room */
async function requirePieceRoom({ pool }: SessionServices, { session, key }: OutputStep, { piece, text }: OutputPiece) {
  if (piece % PIECES_PER_CHECK !== 0 && text.length <= UNCHECKED_MAX_CHARS) return;
  try {
    await requireRoom(pool, session.accountId, 'transcripts', 0);
  } catch (error) {
    const known = await findOutput(pool, key);
    const isStored = known !== null && (known.state !== 'open' || piece < known.pieces);
    if (!isStored) throw error;
  }
}

/** Plugins can make a short text long, and add files to an empty one. @throws Problem `quota_exceeded` */
async function requireJudgedRoom({ pool }: SessionServices, { session }: OutputStep, judged: string): Promise<void> {
  if (judged.length > UNCHECKED_MAX_CHARS)
    await requireRoom(pool, session.accountId, 'transcripts', Buffer.byteLength(judged));
}

/** @throws Problem as `sendWholeOutput`, and `bad_request` for a piece that is not the next one */
export function sendPiece(services: SessionServices, turn: TurnStep, request: OutputPiece): Promise<OutputAnswer> {
  const { id, piece, text, attachments, done } = request;
  const step = toOutputStep(turn, id ?? deriveOutputId(turn.key.turnId, 'streamed'));
  const { session, key, runtime } = step;
  const digest = digestOf([piece, text, attachments]);
  return withLock(services, key, async () => {
    services.untouchedTurns.take(key, runtime);
    const mode = readOutboundMode(await services.pluginsCache.current(session.accountId));
    await requirePieceRoom(services, step, request);
    const added = await addPiece(services.pool, key, runtime, { piece, text, mode });
    const repeated = added === null ? await findRepeated(services, step, request, digest) : null;
    const known = repeated?.output;
    if (known && known.state !== 'open')
      return describeOutput(known, known.isHeld || known.isStreamed ? known.shown : known.shown - text.length);
    await services.faultPoint('turn.piece');
    const isJudged = added?.fate === 'judged' || (known?.isStreamed === true && !known.isHeld);
    if (done) return judgeLastPiece(services, step, { ...request, digest }, isJudged);
    const row = repeated?.piece;
    if (row?.isShown) return describeOpen(key.outputId, row.judgedText ?? text);
    // No piece follows one that was not judged, unless the rest is held.
    const { tail: before, wholeChars } = added ?? row ?? NO_TEXT;
    const textMaxChars = TEXT_MAX_CHARS - (wholeChars - text.length);
    if (isJudged) return judgePiece(services, step, { ...request, digest, before, textMaxChars });
    return describeOpen(key.outputId, added?.fate === 'shown' ? text : '');
  });
}

const NO_TEXT = { tail: '', wholeChars: 0 };

const describeOpen = (id: string, show: string): OutputAnswer => ({
  ...CONTINUE,
  id,
  state: 'open',
  show,
  attachments: [],
  judgement: null,
});

interface PieceToJudge extends Omit<OutputPiece, 'id'> {
  readonly digest: string;
}

/** Judges the last piece, which completes the output. @param isJudged whether each piece is judged on its own */
async function judgeLastPiece(
  services: SessionServices,
  step: OutputStep,
  request: PieceToJudge,
  isJudged: boolean,
): Promise<OutputAnswer> {
  const joined = await joinPieces(services.pool, step.key, request.piece);
  if (isJudged) return judgePiece(services, step, { ...request, ...completeWith(joined) });
  const { attachments, target, digest } = request;
  return judgeOutput(services, step, { ...joined, attachments, target, digest });
}

interface PieceAfterText extends PieceToJudge {
  /** The judged text before the piece, or its end. */
  readonly before: string;
  /** Characters that the judged piece may have: the whole text has at most `TEXT_MAX_CHARS`. */
  readonly textMaxChars: number;
  /** Completes the output with the last piece, or with one that is cancelled. */
  readonly complete?: { readonly shown: string; readonly judgements: readonly Judgement[] };
}

/** The text before the last piece, to which it is added. */
const completeWith = (joined: JoinedPieces): Pick<PieceAfterText, 'before' | 'textMaxChars' | 'complete'> => ({
  before: joined.shown,
  textMaxChars: TEXT_MAX_CHARS - joined.shown.length,
  complete: joined,
});

/** Texts of a channel's conversation go to that conversation, whatever recipient the runtime names. */
async function runOutputHook(
  services: SessionServices,
  session: Session,
  message: z.output<typeof outbound>,
  target: string,
  { textMaxChars, ...rest }: { readonly partial?: z.output<typeof partialOf>; readonly textMaxChars?: number } = {},
) {
  const key = session.channelId === null ? null : await findConversationKey(services.pool, session.id);
  const context = { ...rest, message, target: key ?? target };
  return runMessageHook(services, session, HOOK, context, 'agent', {
    noticeId: `${message.id}:vetoed`,
    requiresFiles: true,
    textMaxChars,
  });
}

/** Has the plugins judge one piece. */
async function judgePiece(
  services: SessionServices,
  step: OutputStep,
  { piece, text, attachments, target, done, digest, before, textMaxChars, complete }: PieceAfterText,
): Promise<OutputAnswer> {
  const { session, key } = step;
  const { outputId: id } = key;
  const message = { id, text, attachments };
  const partial = { before: before.slice(-BEFORE_MAX_CHARS).toWellFormed(), done };
  const answer = await runOutputHook(services, session, message, target, { partial, textMaxChars });
  await services.faultPoint('turn.output-judged');
  if (answer.cancelled?.cause === 'failure') return { ...describeOpen(id, ''), ...describeCancelled(answer.cancelled) };
  const judged = answer.context.message;
  const own = toJudgement('outboundMessage', answer);
  if (!done && !answer.cancelled) {
    await requireJudgedRoom(services, step, judged.text);
    const growth = judged.text.length - text.length;
    await passPiece(services.pool, key, { piece, text: judged.text, growth, judgement: own, guards: answer.guards });
    return describeOpen(id, judged.text);
  }
  // A veto keeps no text, so it needs none of the pieces before.
  const { shown, judgements } = complete ?? { shown: '', judgements: [] };
  const whole = shown + judged.text;
  const present = digestGuards(await services.pluginsCache.current(session.accountId), HOOK);
  // Without pieces before, this one is the whole text. Without a required plugin, none can have missed the first piece.
  const isJudged = shown === '' || present === '';
  const guards = isJudged ? answer.guards : ((await findOutput(services.pool, key))?.guards ?? null);
  if (shown !== '' && !answer.cancelled && hasNewGuard(guards, present))
    return judgeOutput(services, step, { text: whole, attachments: judged.attachments, target, digest, shown });
  return completeOutput(services, step, {
    digest,
    judgement: [...judgements, own].reduce(mergeJudgements),
    text: whole,
    attachments: judged.attachments,
    guards,
    shownChars: shown.length,
  });
}

interface RepeatedPiece {
  readonly output: OutputRow;
  /** Null: the output is complete. */
  readonly piece: PieceRow | null;
}

/** @param id undefined: the runtime gave none */
const createCompleteProblem = (id: string | undefined): Problem =>
  new Problem(
    'id_reused',
    id === undefined
      ? 'Pieces without an `id` are of one output of their turn, which is complete. Send the pieces of each text with an `id` of their own.'
      : 'This output is complete: its pieces are not kept, and it takes no more. GET /sessions/{id}/turns/{turnId} returns it. Send another text with another `id`.',
  );

/** The output of a piece that is not new, and the piece as it came before. @throws Problem if it is not a repeated piece */
async function findRepeated(
  services: SessionServices,
  { key, runtime }: OutputStep,
  { id, piece, text, done }: OutputPiece,
  digest: string,
): Promise<RepeatedPiece> {
  const known = await findOutput(services.pool, key);
  if (known && known.state !== 'open') {
    // A piece that is cancelled completes its output, too.
    if (known.digest === digest && (done || known.state === 'vetoed')) return { output: known, piece: null };
    throw createCompleteProblem(id);
  }
  await requireHeldTurn(services.pool, key, runtime);
  if (!known) {
    if (await hasMessage(services.pool, key.sessionId, key.outputId)) throw createTakenProblem(false);
    throw createBadRequest('body', [{ field: 'piece', message: 'must be 0, the first piece' }]);
  }
  if (known.pieces === 0) throw createReusedProblem('an output that came whole');
  if (piece > known.pieces)
    throw createBadRequest('body', [{ field: 'piece', message: `must be ${known.pieces}, the next piece` }]);
  if (piece === known.pieces)
    throw createBadRequest('body', [
      { field: 'text', message: `makes the whole text, as judged so far, longer than ${TEXT_MAX_CHARS} characters` },
    ]);
  const row = await findPiece(services.pool, key, piece);
  // Pieces that were shown follow it: completed with this one, the text would lack them.
  const isCutShort = done && piece < known.pieces - 1;
  if (row?.text !== text || isCutShort) throw createReusedProblem('a piece of this output');
  return { output: known, piece: row };
}

/** Judges outputs whose last piece did not come. @returns `cancel` if a required plugin did not run, so that one stays open */
export async function finishOutputs(services: SessionServices, turn: TurnStep, target: string): Promise<Verdict> {
  for await (const id of listUnfinishedOutputs(services.pool, turn.key)) {
    const step = toOutputStep(turn, id);
    const answer = await withLock(services, step.key, () => finishOutput(services, step, target));
    if (answer?.state === 'open') return answer;
  }
  return CONTINUE;
}

/** Null: its last piece came meanwhile. */
async function finishOutput(
  services: SessionServices,
  named: OutputStep,
  target: string,
): Promise<OutputAnswer | null> {
  const { pool } = services;
  const output = await findOutput(pool, named.key);
  if (output?.state !== 'open') return null;
  await requireHeldTurn(pool, named.key, named.runtime);
  const step = await renameIfIdIsTaken(pool, named);
  const { pieces, isStreamed, isHeld } = output;
  const joined = await joinPieces(pool, step.key, pieces);
  const rest = { attachments: [], target, digest: '' };
  if (!isStreamed || isHeld || !joined.isJudged) return judgeOutput(services, step, { ...joined, ...rest });
  const last = { ...rest, piece: pieces, text: '', done: true };
  return judgePiece(services, step, { ...last, ...completeWith(joined) });
}

/**
 * Gives an output another id, if a message of the transcript has got its id since the first piece: another turn may use the same id.
 * Otherwise no request could complete the output, nor end its turn.
 */
async function renameIfIdIsTaken(pool: Pool, step: OutputStep): Promise<OutputStep> {
  const { key } = step;
  if (!(await hasMessage(pool, key.sessionId, key.outputId))) return step;
  const renamed = toOutputStep(step, deriveOutputId(key.turnId, randomUUID()));
  await renameOutput(pool, key, renamed.key.outputId);
  return renamed;
}

interface CompleteOutput extends Omit<WholeOutput, 'id' | 'isShown' | 'isNew'> {
  readonly digest: string;
  /** The part that was shown already. */
  readonly shown: string;
}

async function judgeOutput(
  services: SessionServices,
  step: OutputStep,
  { text, attachments, target, digest, shown, save }: CompleteOutput,
): Promise<OutputAnswer> {
  const { session } = step;
  const { outputId: id } = step.key;
  const message = { id, text, attachments };
  const answer = await runOutputHook(services, session, message, target);
  await services.faultPoint('turn.output-judged');
  if (answer.cancelled?.cause === 'failure') return { ...describeOpen(id, ''), ...describeCancelled(answer.cancelled) };
  const judged = answer.context.message;
  const judgement = refuseLateChange(toJudgement('outboundMessage', answer), text, judged.text, shown);
  const isVetoed = judgement.outcome === 'cancelled';
  if (isVetoed && !answer.cancelled) await recordLateChange(services, session, id, judgement);
  return completeOutput(services, step, {
    digest,
    judgement,
    text: judged.text,
    attachments: judged.attachments,
    guards: answer.guards,
    shownChars: shown.length,
    save,
  });
}

interface JudgedOutput extends Omit<JudgedOutputRow, 'data'> {
  readonly save?: WholeOutput['save'];
  /** Characters of the text that were shown already. */
  readonly shownChars: number;
}

/** Adds a judged text to the transcript, or records its veto. */
async function completeOutput(
  services: SessionServices,
  step: OutputStep,
  { digest, judgement, text, attachments, guards, shownChars, save }: JudgedOutput,
): Promise<OutputAnswer> {
  const { pool } = services;
  const { key, runtime } = step;
  const isVetoed = judgement.outcome === 'cancelled';
  // An empty text becomes no message, and only messages are checked when they are added.
  if (!isVetoed && text === '') await requireJudgedRoom(services, step, JSON.stringify(attachments));
  const passed = { digest, judgement, text, attachments, guards, data: { attachments, turnId: key.turnId } };
  const pass = save ?? ((output: OutputKey, row: JudgedOutputRow) => passOutput(pool, output, runtime, row));
  const isSaved = isVetoed ? await vetoOutput(pool, key, runtime, { digest, judgement }) : await pass(key, passed);
  if (!isSaved) throw await explainUnsaved(pool, key);
  await services.faultPoint('turn.output-saved');
  const state = isVetoed ? 'vetoed' : 'passed';
  return describeOutput({ id: key.outputId, state, text, attachments, judgement }, shownChars);
}

async function explainUnsaved(pool: Pool, key: OutputKey): Promise<Problem> {
  const known = await findOutput(pool, key);
  const isOpen = known === null || known.state === 'open';
  return isOpen ? explainMissing(pool, key, known !== null) : explainRefusal(pool, key);
}

/** Why there is no output, or only an open one, with the id that a request has. */
async function explainMissing(pool: Pool, key: OutputKey, hasPieces = false): Promise<Problem> {
  const isTaken = await hasMessage(pool, key.sessionId, key.outputId);
  return isTaken ? createTakenProblem(hasPieces) : explainRefusal(pool, key);
}

/** @param hasPieces whether the message came after pieces of the output; sent with another id, they would be in the transcript twice */
const createTakenProblem = (hasPieces: boolean): Problem =>
  new Problem(
    'id_reused',
    `Another message of the session has this id, such as an output of another turn. ${hasPieces ? 'End the turn, which completes this output with a new id.' : 'Send this text with another id.'} Begin the ids of outputs with the id of their turn.`,
  );

/** A plugin that was installed while a text was being shown can no longer change it: that stops the rest. */
function refuseLateChange(judgement: Judgement, text: string, judged: string, shown: string): Judgement {
  if (shown === '' || judgement.outcome !== 'changed' || judged === text) return judgement;
  return { ...judgement, outcome: 'cancelled', reason: 'it changes a message that was already being streamed' };
}

async function recordLateChange(
  { pool }: SessionServices,
  session: Session,
  id: string,
  { by, reason }: Judgement,
): Promise<void> {
  const [plugin = null] = by;
  const data = { kind: 'cancelled', hook: HOOK, plugin };
  await appendNotices(pool, session.id, [{ id: `${id}:vetoed`, text: describeCancel(plugin, reason), data }]);
}

function describeOutput(
  { id, state, text, attachments, judgement }: Pick<OutputRow, 'id' | 'state' | 'text' | 'attachments' | 'judgement'>,
  shownBefore: number,
): OutputAnswer {
  const show = state === 'passed' ? (text ?? '').slice(shownBefore) : '';
  return {
    ...readVerdict(judgement),
    id,
    state,
    show,
    attachments: state === 'passed' ? (attachments ?? []) : [],
    judgement,
  };
}

const withLock = <T>(services: SessionServices, { sessionId, turnId, outputId }: OutputKey, work: () => Promise<T>) =>
  services.turnLocks.run(`${sessionId} ${turnId} ${outputId}`, work);

/** @throws Problem unless the runtime has the turn and the output is new, so that only another output kept the turn open */
export async function requireNewOutput(services: SessionServices, key: OutputKey, runtime: string): Promise<void> {
  if (await holdNewOutput(services.pool, key, runtime)) return;
  await requireOutput(services, key);
  throw new Problem('unavailable', 'Another supervisor has taken this text meanwhile. Send the request again.');
}

/** The output whose id a request repeats. @throws Problem if there is none */
async function requireOutput({ pool }: SessionServices, key: OutputKey): Promise<OutputRow> {
  const known = await findOutput(pool, key);
  if (known) return known;
  throw await explainMissing(pool, key);
}
