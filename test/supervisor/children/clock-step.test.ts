/** A step of the supervisor's wall clock neither lengthens a backoff nor ends it. */
import t from 'tap';
import { registerHooks } from '../../fixtures/registrations.ts';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const HOUR_MS = 3_600_000;
/** Steps of the wall clock. Before the fixture starts, because it may keep the function. */
let passedMs = 0;
const realNow = Date.now;
Date.now = () => realNow() + passedMs;
t.teardown(() => {
  Date.now = realNow;
});

t.test('a plugin that crashed starts again in time after the wall clock went back', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const session = await fixture.session();
  const registrations = registerHooks('middleware.systemPrompt');
  const { installationId } = await fixture.install({
    slug: 'crasher',
    code: 'throw new Error("broken start");',
    registrations,
  });
  const call = () =>
    fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context: { systemPrompt: 'a', model: 'm' } });
  const countCrashes = async (): Promise<number> => {
    const query = 'SELECT restarts FROM installation_runtime WHERE installation_id = $1';
    return (await fixture.pool.query(query, [installationId])).rows[0]?.restarts ?? 0;
  };
  await call();
  // On a busy machine, a repeated call may have started it again.
  const crashes = await eventually(countCrashes);
  passedMs = -2 * HOUR_MS;
  await eventually(async () => {
    await call();
    return (await countCrashes()) > crashes;
  });
});
