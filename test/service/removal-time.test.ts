/** The request of a removal that takes too long ends with an answer that says what to do. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { removeInTime } from '../../service/http/removal-time.ts';

t.test('a removal that takes too long is ended, and the client repeats it', async (t) => {
  /** As a removal between its batches. */
  const remove = async (signal: AbortSignal): Promise<never> => {
    for (;;) {
      signal.throwIfAborted();
      await nextTurn();
    }
  };
  const detail = /takes longer than 0\.01 s\. Repeat the request: it continues/;
  await t.rejects(removeInTime(remove, 10), { code: 'unavailable', retryAfter: 1, message: detail });
});

t.test('what a removal returns or throws in time stays as it is', async (t) => {
  t.equal(await removeInTime(async () => 'removed'), 'removed');
  await t.rejects(
    removeInTime(() => Promise.reject(new Error('lost'))),
    { message: 'lost' },
  );
});
