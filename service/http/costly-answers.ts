/** Lets large JSON answers wait for a turn of the event loop before they are written, whatever route they are of. */
import type { FastifyInstance } from 'fastify';
import { COSTLY_BYTES, waitForLoopTurn } from '../timing/loop-turns.ts';
import { requireCaller } from './authentication.ts';

/** Size of a value beside its text. Bytes. Checking a value against the schema takes longer than writing it. */
const VALUE_BYTES = 8;
/** Characters of a text that are written in the time of one byte of small values. */
const CHARACTERS_PER_BYTE = 8;

/** Adds the wait to all routes of a scope whose requests are signed in. */
export function delayCostlyAnswers(scope: FastifyInstance): void {
  // A callback instead of a promise: small answers are written at once.
  scope.addHook('preSerialization', (request, _reply, payload, done) => {
    if (!isCostly(payload)) {
      done(null, payload);
      return;
    }
    void waitForLoopTurn(requireCaller(request).id).then(() => done(null, payload));
  });
}

/** Whether a value takes as long to write as `COSTLY_BYTES` of small values. Reads no more of it than that. */
export const isCostly = (value: unknown): boolean => subtractSize(COSTLY_BYTES, value) < 0;

/** Subtracts the size of a value from the bytes that are left. Returns early below zero. */
function subtractSize(bytes: number, value: unknown): number {
  let left = bytes - VALUE_BYTES;
  if (typeof value === 'string') return left - value.length / CHARACTERS_PER_BYTE;
  if (typeof value !== 'object' || value === null) return left;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (left < 0) return left;
      left = subtractSize(left, item);
    }
    return left;
  }
  for (const name in value) {
    if (left < 0) return left;
    left = subtractSize(left - name.length, (value as Record<string, unknown>)[name]);
  }
  return left;
}
