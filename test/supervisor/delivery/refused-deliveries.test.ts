/** Where a plugin may not run for want of bubblewrap, its deliveries and events wait; none of their attempts is used up. */
import t from 'tap';
import { recordEvent } from '../../../db/installations/events.ts';
import { eventually } from '../../runner/eventually.ts';
import { openStorageFixture, startSupervisorFixture } from '../supervisor-fixture.ts';
import { connect, deliver, recorder, rowOf } from './channels.ts';

const { sandbox } = await openStorageFixture(t);

t.test('a refused plugin’s deliveries and events are held', async (t) => {
  const missing = 'Install bubblewrap.';
  const fixture = await startSupervisorFixture(t, {
    sandbox: { ...sandbox, state: 'degraded', admits: 'operators', missing },
  });
  const code = `${recorder()} events.pluginInstalled = () => undefined;`;
  const made = await fixture.install({ slug: 'theirs', owner: 'bob', code });
  const [first = '', second = ''] = await deliver(fixture, made, await connect(fixture, made), ['1', '2']);
  const eventId = await recordEvent(fixture.pool, fixture.supervisor.queues, {
    ...made,
    semVer: '1.0.0',
    type: 'pluginInstalled',
    data: { reason: 'install' },
  });
  const eventRow = async () =>
    (await fixture.pool.query('SELECT *, next_attempt_at - now() AS wait FROM events WHERE id = $1', [eventId]))
      .rows[0];
  for (const look of [() => rowOf(fixture, first), eventRow]) {
    const row = await eventually(async () => {
      const found = await look();
      return found.last_error !== null && found;
    });
    t.match(row, { state: 'pending', attempts: 0, claimed_by: null, last_error: /Install bubblewrap/ });
    t.ok(Date.parse(row.next_attempt_at) > Date.now(), 'attempted again later');
  }
  t.match(
    await rowOf(fixture, second),
    { state: 'pending', attempts: 0 },
    'the next one of the channel waits behind it',
  );
});
