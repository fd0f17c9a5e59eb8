/** Lets large JSON answers wait for a turn of the event loop before they are written, whatever route they are of. */
import type { FastifyInstance } from 'fastify';
import { COSTLY_BYTES, waitForLoopTurn } from '../timing/loop-turns.ts';
import { weighValue } from '../timing/value-weight.ts';
import { requireCaller } from './authentication.ts';

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
export const isCostly = (value: unknown): boolean => weighValue(value, COSTLY_BYTES) > COSTLY_BYTES;
