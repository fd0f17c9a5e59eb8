/** What a user reads about a delivery that waits. */
import t from 'tap';
import { describeWait } from '../../../api/channels/delivery-wait.ts';

const NOW = Date.parse('2026-11-27T12:00:00Z');
const waiting = {
  direction: 'in',
  state: 'pending',
  attempting: false,
  waitsFor: null,
  nextAttemptAt: '2026-11-27T12:00:00.005Z',
  setAside: false,
  attempts: 0,
  lastError: null,
} as const;

t.test('a delivery that is stored by a database whose clock is ahead is next', (t) => {
  t.equal(describeWait(waiting, NOW), 'It is next. At most 4 deliveries of an installation are attempted at once.');
  t.end();
});

t.test('a delivery whose attempts do not count says why', (t) => {
  const reason = describeWait({ ...waiting, lastError: 'the supervisor is full' }, NOW);
  t.equal(reason, 'Its last attempt does not count: the supervisor is full');
  t.end();
});

t.test(
  'a delivery says whether the first one failed, waits for the installation or has attempts that do not count',
  (t) => {
    const first = { id: 'd1', lastError: 'paused', attempts: 0, isHeld: true };
    const describe = (waitsFor: typeof first) => describeWait({ ...waiting, waitsFor }, NOW);
    t.equal(describe(first), 'It waits for delivery d1, which comes first, and until the installation can run: paused');
    t.equal(
      describe({ ...first, lastError: 'starting', isHeld: false }),
      'It waits for delivery d1, which comes first. The last attempt at that one does not count: starting',
    );
    t.match(
      describe({ ...first, lastError: 'no', attempts: 1, isHeld: false }),
      /first, whose last attempt failed: no$/,
    );
    t.end();
  },
);

t.test('a delivery that was set aside and is due waits for those that are due earlier', (t) => {
  const due = { ...waiting, nextAttemptAt: '2026-11-27T11:00:00Z', setAside: true, lastError: 'no' };
  t.match(describeWait(due, NOW), /^It is due\..* one at a time, in the order in which they became due\.$/);
  t.match(describeWait({ ...due, setAside: false }, NOW), /^It is next\./);
  t.end();
});

t.test('a reply that is set aside holds the later ones of its conversation', (t) => {
  const aside = { ...waiting, nextAttemptAt: '2026-11-27T13:00:00Z', setAside: true, attempts: 2, lastError: 'no' };
  const failed = 'It failed 2 times and is attempted again. ';
  t.equal(describeWait(aside, NOW), `${failed}Later deliveries pass it.`);
  t.equal(
    describeWait({ ...aside, direction: 'out' }, NOW),
    `${failed}Replies of other conversations pass it, and later ones of its conversation wait for it.`,
  );
  t.end();
});
