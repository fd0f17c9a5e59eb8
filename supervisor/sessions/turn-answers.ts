/** The responses to the steps of a turn, and the problems of steps that a runtime may not take. */
import { hash } from 'node:crypto';
import type { Pool } from 'pg';
import type { Session } from '../../db/sessions/sessions.ts';
import { findTurn, holdTurn, type Judgement, type TurnKey, type TurnRow } from '../../db/sessions/turns.ts';
import { describeCancel, Problem } from '../../sdk/contract/errors.ts';
import type { Cancel } from '../calls/chain.ts';
import type { TurnAnswer } from './turn-schemas.ts';

/** A turn of which a runtime takes a step. */
export interface TurnStep {
  readonly session: Session;
  readonly key: TurnKey;
  /** The name that the lease of the turn belongs to. */
  readonly runtime: string;
}

/** The result of a step. `cancel`: the step did not happen. */
export type Verdict = Pick<TurnAnswer, 'action' | 'reason' | 'cancelledBy' | 'isFinal'>;

export const CONTINUE: Verdict = { action: 'continue', reason: null, cancelledBy: null, isFinal: true };

/** A step that did not happen, because a chain cancelled it. */
export const describeCancelled = ({ reason, by, cause }: Cancel): Verdict => ({
  action: 'cancel',
  reason,
  cancelledBy: by.slug,
  isFinal: cause === 'plugin',
});

/** The verdict of a message that was judged earlier. */
export const readVerdict = (judged: Judgement | null): Verdict =>
  judged?.outcome === 'cancelled'
    ? { action: 'cancel', reason: judged.reason, cancelledBy: judged.by[0] ?? null, isFinal: true }
    : CONTINUE;

/** Recognizes another request with the same id. */
export const digestOf = (request: unknown): string => hash('sha256', JSON.stringify(request) ?? '', 'base64url');

/** `digestOf` of a JSON value, whatever the order of the keys of its objects: many languages do not keep that order. */
export const digestOfJson = (value: unknown): string => hash('sha256', formatSorted(value), 'base64url');

/** Whether two values are the same JSON, whatever the order of the keys of their objects. */
export const isSameJson = (a: unknown, b: unknown): boolean =>
  JSON.stringify(a) === JSON.stringify(b) || formatSorted(a) === formatSorted(b);

/** The JSON of a value with the keys of its objects in order. `JSON.stringify` with a function that sorts them takes twice as long. */
function formatSorted(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  let parts = '';
  if (Array.isArray(value)) {
    for (const part of value) parts += `${parts === '' ? '' : ','}${formatSorted(part)}`;
    return `[${parts}]`;
  }
  const object = value as Readonly<Record<string, unknown>>;
  for (const key of Object.keys(object).sort()) {
    if (object[key] === undefined) continue;
    parts += `${parts === '' ? '' : ','}${JSON.stringify(key)}:${formatSorted(object[key])}`;
  }
  return `{${parts}}`;
}

const offerDigests = new WeakMap<object, string>();

/**
 * The digest of a part of what a version offers, which can be large. It is made once: `part` is the same object until another
 * version runs.
 *
 * @param read returns what is digested; the same for each call with this part
 */
export function digestOfOffer(part: object, read: () => unknown = () => part): string {
  const digest = offerDigests.get(part) ?? digestOf(read());
  offerDigests.set(part, digest);
  return digest;
}

export const createReusedProblem = (what: string): Problem =>
  new Problem('id_reused', `This id belongs to ${what} with other content. Use a new id for a new request.`);

export const createHeldProblem = ({ runtime, leaseUntil }: Pick<TurnRow, 'runtime' | 'leaseUntil'>): Problem =>
  new Problem(
    'turn_held',
    `The runtime “${runtime}” holds this turn until ${leaseUntil}. Leave the turn to it; any runtime can continue it when the lease has expired.`,
  );

/** Why a step found no turn that its runtime may go on with. */
export async function explainRefusal(pool: Pool, key: TurnKey): Promise<Problem> {
  const turn = await findTurn(pool, key);
  if (!turn)
    return new Problem('not_found', 'This session has no turn with this id. Open it with POST /sessions/{id}/turns.');
  if (turn.state === 'open') return createHeldProblem(turn);
  if (turn.state === 'ended') return new Problem('turn_ended', 'The turn has ended. Open another one.');
  if (turn.state === 'cleared')
    return new Problem('turn_ended', 'The session was cleared, which ended the turn. Open another one.');
  if (turn.state === 'vetoed') {
    const { cancelledBy, reason } = readVerdict(turn.judgement);
    return new Problem('cancelled', describeCancel(cancelledBy, reason));
  }
  return new Problem(
    'cancelled',
    'The plugins have not let the message of this turn pass yet. Open the turn again with the same id.',
  );
}

/** Extends the runtime's lease of a turn. @throws Problem if the runtime may not continue the turn */
export async function requireHeldTurn(pool: Pool, key: TurnKey, runtime: string): Promise<TurnRow> {
  const turn = await holdTurn(pool, key, runtime);
  if (!turn) throw await explainRefusal(pool, key);
  return turn;
}

/** Removes a step that the transcript has no room for. @throws the error */
export async function forgetUnkept(error: unknown, forget: () => Promise<unknown>): Promise<never> {
  if (error instanceof Problem && error.code === 'quota_exceeded') await forget();
  throw error;
}
