/**
 * Admits the texts of a child's messages: what PostgreSQL cannot store is shown in its log, and refused in its answers. The
 * text of a failure is cut.
 */
import { findUnstorable, mapTexts, replaceUnstorable, UNSTORABLE } from '../../db/postgres/storable-json.ts';
import { TEXT_MAX } from '../../sandbox-child/text.ts';

/** Longest message of a failure, characters. It is kept with the installation's state, its last exit and its log. */
const FAILURE_MESSAGE_MAX_CHARS = 8_192;

/** Cuts the text of a failure, which a child chooses. A plugin's child has cut its stack already. */
export function cutFailure(message: string, stack: string): { message: string; stack: string } {
  return { message: cutText(message, FAILURE_MESSAGE_MAX_CHARS), stack: cutText(stack, TEXT_MAX) };
}

/** Copies, because a slice would keep the whole text in memory. The copy has whole characters only. */
export const cutText = (text: string, maxChars: number): string =>
  text.length <= maxChars ? text : Buffer.from(text.slice(0, maxChars)).toString();

type Fields = Readonly<Record<string, unknown>>;

/**
 * Returns the message with diagnostic text made storable, or with an answer replaced by a failure that names the text. A host
 * call stays as it is: the router refuses its arguments by name.
 */
export function admitText(message: Record<string, unknown>): Record<string, unknown> {
  const { method, params, result } = message;
  if (method === 'log') return { ...message, params: mapTexts(params, replaceUnstorable) };
  if (method !== undefined || typeof result !== 'object' || result === null) return message;
  return { ...message, result: admitResult(result as Fields) };
}

function admitResult(result: Fields): Fields {
  if (result.outcome === 'answered') {
    const field = findUnstorable(result.answer);
    return field === null ? result : failed(`${field === '' ? 'the text' : field} in what it returned ${UNSTORABLE}`);
  }
  if (result.outcome !== 'loaded') return mapTexts(result, replaceUnstorable);
  const field = findUnstorable(result.registrations);
  const shown = mapTexts(result, replaceUnstorable);
  return field === null ? shown : failed(`${field} ${UNSTORABLE}`, findPlace(shown.places, field));
}

/** An outcome of the protocol, as a child reports an exception of the plugin. */
const failed = (message: string, stack = ''): Fields => ({ outcome: 'failed', message, stack });

/** The stack of the assignment of `tools.x`, for the field `tools.x.description`. */
function findPlace(places: unknown, field: string): string {
  const name = field.split('.', 2).join('.');
  const stack = typeof places === 'object' && places !== null ? (places as Fields)[name] : undefined;
  return typeof stack === 'string' ? stack : '';
}
