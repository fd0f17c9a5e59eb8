/** Texts whose characters come in two parts: bytes of UTF-8, which every runtime can read, and halves of surrogate pairs. */
import { ensure, Skipped } from '../../expect.ts';
import type { Answer } from '../runtime-process.ts';
import { describe, requireAnswer, type Scene } from '../scene.ts';

export const DECODE = 'Decode the model’s response as UTF-8 across its chunks: a chunk may end within a character.';
export const STORABLE =
  'Send texts that JSON and PostgreSQL can hold: replace NUL and half a surrogate pair by U+FFFD, in JavaScript with `text.toWellFormed()`.';

const SPLIT_TEXT = 'Bread 🍞 and 🥐.';
const SPLIT_BYTES = { deltas: ['Bread 🍞 ', 'and 🥐.'], isSplit: true };
const SPLIT_PAIRS = { deltas: ['Bread \ud83c', '\udf5e and \ud83e', '\udd50.'] };
/** In languages whose texts cannot hold half a pair, each half is one U+FFFD. */
const SPLIT_PAIRS_SHOWN = /^Bread (🍞|\ufffd\ufffd) and (🥐|\ufffd\ufffd)\.$/;

/** The model's characters come in two chunks each. Returns the text that the user saw. */
export async function playSplitBytes(scene: Scene): Promise<string> {
  const answer = await scene.script(SPLIT_BYTES).say('hello');
  requireAnswer(answer, SPLIT_TEXT);
  return answer.text;
}

/** The model's characters are in two deltas each. Returns the text that the user saw. */
export async function playSplitPairs(scene: Scene): Promise<string> {
  const answer = await scene.script(SPLIT_PAIRS).say('hello');
  requireHalfPairs(scene, answer);
  ensure(answer.end.kind === 'done' && SPLIT_PAIRS_SHOWN.test(answer.text), `the user saw ${describe(answer)}`);
  return answer.text;
}

/**
 * Skips the scenario where the answer failed in the runtime: parsers of JSON may refuse half a surrogate pair. A runtime that sent
 * it to the service has read it.
 */
export function requireHalfPairs(scene: Scene, { end }: Answer): void {
  if (end.kind === 'failed' && !scene.isRefused) throw skipHalfPairs(end.reason);
}

/** @param reason what is known of the runtime's end */
export const skipHalfPairs = (reason: string): Skipped =>
  new Skipped(`the runtime does not read half a surrogate pair: ${reason}`);
