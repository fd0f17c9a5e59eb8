/** The order of requests of one address that wait while the tokens of others are being verified. */
import { setImmediate as endTurn } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import t from 'tap';
import { AnonymousRateLimiter } from '../../service/http/rate-limits.ts';
import { InvalidTokenError } from '../../service/identity/tokens.ts';

const REQUEST = { ip: '192.0.2.1' } as FastifyRequest;
const REPLY = { header: () => REPLY, removeHeader: () => REPLY } as unknown as FastifyReply;
const MINUTE = 60_000;

/** A request whose token is being verified until the test says how that ends. */
function startCheck(limiter: AnonymousRateLimiter) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const state = { isChecked: false };
  const check = () => {
    state.isChecked = true;
    return promise;
  };
  const outcome = limiter.check(REQUEST, REPLY, check).then(
    () => 'accepted',
    (error: { readonly code?: string }) => error.code ?? 'refused',
  );
  return { state, outcome, accept: resolve, refuse: () => reject(new InvalidTokenError('forged')) };
}

t.test('a request that waits gets a token before those that come later', async (t) => {
  let now = 0;
  const limiter = new AnonymousRateLimiter(2, () => now);
  const [first, second, waiting] = [startCheck(limiter), startCheck(limiter), startCheck(limiter)];
  await endTurn();
  t.same([first.state.isChecked, second.state.isChecked, waiting.state.isChecked], [true, true, false]);
  now += MINUTE / 2;
  const later = [startCheck(limiter), startCheck(limiter)] as const;
  t.equal(await later[1].outcome, 'rate_limited', 'as many wait as are being verified');
  first.refuse();
  t.equal(await first.outcome, 'refused');
  t.same([waiting.state.isChecked, later[0].state.isChecked], [true, false]);
  second.refuse();
  waiting.refuse();
  t.equal(await later[0].outcome, 'rate_limited', 'no token can come back');
  t.same([await second.outcome, await waiting.outcome], ['refused', 'refused']);
  now += MINUTE;
  const last = startCheck(limiter);
  last.accept();
  t.equal(await last.outcome, 'accepted');
});
