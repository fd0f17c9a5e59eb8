/** The page about REST with curl: its commands are run, in their order, against both interfaces in this process. */
import t from 'tap';
import { listen, startApiFixture } from '../api/api-fixture.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { whyMissing } from '../runner/programs.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { runShellBlocks } from './shell-blocks.ts';

t.test('the commands of the page', { skip: whyMissing('curl') || whyMissing('zip') }, async (t) => {
  const supervisor = await startSupervisorFixture(t);
  const api = await startApiFixture(t, { beside: supervisor });
  const env = {
    API: `http://127.0.0.1:${await listen(api)}/api`,
    SESSION_API: await supervisor.app.listen({ port: 0, host: '127.0.0.1' }),
    TOKEN: (await api.user('ann')).token,
  };
  const stdout = await runShellBlocks('rest-with-curl.md', env, await temporaryFolder(t));
  t.match(stdout, /"middleware":\["middleware\.systemPrompt"\]/);
  t.match(stdout, /You are helpful\.\\nClose by recommending a cup of Assam\./);
});
