/** Has the plugins judge the messages that turns answer, and again those that waited while a plugin became required. */
import { isDeepStrictEqual } from 'node:util';
import { storeFreshJudgement } from '../../db/sessions/fresh-messages.ts';
import { findMessage, type MessageRow, type Session } from '../../db/sessions/sessions.ts';
import type { Judgement, Trigger, TurnMessage, TurnRow } from '../../db/sessions/turns.ts';
import { attachments as attachmentList } from '../../sdk/contract/payloads.ts';
import { triggersByKind } from '../../sdk/session/message-kinds.ts';
import { createBadRequest } from '../../service/http/errors.ts';
import type { Cancel, ChainState } from '../calls/chain.ts';
import { digestGuards, hasNewGuard } from '../calls/guards.ts';
import { mergeJudgements, toJudgement } from '../calls/judgement.ts';
import { runMessageHook } from './hooks.ts';
import type { SessionServices } from './session-services.ts';
import type { TurnRequest } from './turn-schemas.ts';

const INBOUND = 'middleware.inboundMessage';

type SentMessage = Pick<TurnRequest, 'id' | 'from' | 'text' | 'attachments'>;
export type InboundMessage = ReturnType<typeof toInboundMessage>;
export interface JudgedMessage {
  readonly answer: ChainState;
  readonly judgement: Judgement;
  /** The message after the plugins' changes. */
  readonly message: InboundMessage;
}
type KnownMessage = Pick<TurnMessage, 'text' | 'data'>;

/** The message of a turn. @throws Problem `bad_request` without a text */
export function toInboundMessage({ id, from, text, attachments }: SentMessage, known: KnownMessage | null) {
  const sent = known && readSent(known);
  if (known && sent) return { id, from: sent.from ?? from, text: known.text, attachments: sent.attachments };
  if (text === undefined)
    throw createBadRequest('body', [
      { field: 'text', message: 'is required, because no message of this session has the id of the turn' },
    ]);
  return { id, from, text, attachments };
}

/** A runtime may have added the message with any data. */
export const readSent = ({ data }: Pick<TurnMessage, 'data'>) => ({
  from: typeof data?.from === 'string' ? data.from : null,
  attachments: attachmentList.safeParse(data?.attachments).data ?? [],
});

/** The data of a message that was in the transcript before it was judged, without the files that a hook took out. */
export const keepJudgedFiles = (
  { data }: Pick<TurnMessage, 'data'>,
  { attachments }: InboundMessage,
): TurnMessage['data'] => (isDeepStrictEqual(data?.attachments ?? [], attachments) ? data : { ...data, attachments });

interface JudgingRequest {
  readonly trigger: Trigger;
  /** An earlier judgement: then only the required plugins are asked. */
  readonly before?: Judgement | null | undefined;
  /** Whether to refuse a message with a file that the account does not have. */
  readonly requiresFiles: boolean;
}

export async function judgeMessage(
  services: SessionServices,
  session: Session,
  message: InboundMessage,
  { trigger, before = null, requiresFiles }: JudgingRequest,
): Promise<JudgedMessage> {
  const options = { noticeId: `${message.id}:vetoed`, isRepeated: before !== null, requiresFiles };
  const answer = await runMessageHook(services, session, INBOUND, { message }, trigger, options);
  await services.faultPoint('turn.judged');
  const judgement = toJudgement('inboundMessage', answer);
  return {
    answer,
    judgement: before ? mergeJudgements(before, judgement) : judgement,
    message: answer.context.message,
  };
}

/** Whether a required plugin may not have judged a message that was judged under `judgedBy`. */
export const isJudgedAgain = async (
  { pluginsCache }: SessionServices,
  { accountId }: Session,
  judgedBy: string | null,
): Promise<boolean> => hasNewGuard(judgedBy, digestGuards(await pluginsCache.current(accountId), INBOUND));

interface FreshResult {
  /** Whether messages have changed, so that they must be read again. */
  readonly isChanged: boolean;
  /** A required plugin that did not run. */
  readonly stopped: Cancel | null;
}

/**
 * Has the required plugins judge the messages that wait for their turns, that no model has read yet, and that were judged before one of
 * those plugins was installed, changed or required. They are about to be part of the prompt of another turn.
 */
export async function judgeFreshMessages(
  services: SessionServices,
  session: Session,
  turn: Pick<TurnRow, 'sender' | 'trigger'>,
  rows: readonly MessageRow[],
): Promise<FreshResult> {
  let isChanged = false;
  for (const { id, freshGuards } of rows) {
    if (freshGuards === null || !(await isJudgedAgain(services, session, freshGuards))) continue;
    isChanged = true;
    // The lock of the message's own turn, which would judge it at the same time.
    const stopped = await services.turnLocks.run(`${session.id} ${id}`, () =>
      judgeFreshMessage(services, session, turn, id),
    );
    if (stopped) return { isChanged, stopped };
  }
  return { isChanged, stopped: null };
}

async function judgeFreshMessage(
  services: SessionServices,
  session: Session,
  { sender, trigger }: Pick<TurnRow, 'sender' | 'trigger'>,
  id: string,
): Promise<Cancel | null> {
  const { pool } = services;
  const row = await findMessage(pool, session.id, id);
  if (!row?.judgement || row.freshGuards === null) return null;
  if (!(await isJudgedAgain(services, session, row.freshGuards))) return null;
  const sent = toInboundMessage({ id, from: sender, text: row.text, attachments: [] }, row);
  // Plugins may let a person say what they refuse others: the message is judged as what it is, also in a turn of a person.
  const own = triggersByKind[String(row.data?.kind)] ?? (row.data?.channelId === undefined ? trigger : 'channel');
  const request = { trigger: own, before: row.judgement, requiresFiles: false };
  const { answer, judgement, message } = await judgeMessage(services, session, sent, request);
  const { cancelled, guards } = answer;
  if (cancelled?.cause === 'failure') return cancelled;
  const kept = cancelled ? { text: '', data: null } : { text: message.text, data: keepJudgedFiles(row, message) };
  await storeFreshJudgement(pool, { sessionId: session.id, id }, { ...kept, judgement, guards });
  return null;
}
