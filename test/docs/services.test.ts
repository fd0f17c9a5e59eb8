/** The page about services: what it says is run, with curl, against a session API. */
import t from 'tap';
import { whyMissing } from '../runner/programs.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { runShellBlocks } from './shell-blocks.ts';

t.test('the requests of the page', { skip: whyMissing('curl') }, async (t) => {
  const fixture = await startSupervisorFixture(t);
  const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  const env = { SESSION_API: url, TOKEN: await fixture.issuer.issue('ann') };
  t.match(
    await runShellBlocks('services.md', env),
    /"id":"flour","title":"Buy flour".*"todos":\[\{"id":"flour".*true\nBuy flour\n2099-01-05T06:00:00.000Z\nTurn the oven on\nplanner\nThe bread is done.\n$/s,
  );
});
