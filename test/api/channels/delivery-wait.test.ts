/** What a user reads about a delivery that waits. */
import t from 'tap';
import { describeWait } from '../../../api/channels/delivery-wait.ts';

const NOW = Date.parse('2026-11-27T12:00:00Z');
const waiting = {
  state: 'pending',
  attempting: false,
  waitsFor: null,
  nextAttemptAt: '2026-11-27T12:00:00.005Z',
  setAside: false,
  attempts: 0,
  lastError: null,
} as const;

t.test('a delivery that is stored by a database whose clock is ahead is next', (t) => {
  t.equal(describeWait(waiting, NOW), 'It is next.');
  t.end();
});

t.test('a delivery whose plugin could not be called says why', (t) => {
  const reason = describeWait({ ...waiting, lastError: 'the supervisor is full' }, NOW);
  t.equal(reason, 'The plugin could not be called: the supervisor is full');
  t.end();
});
