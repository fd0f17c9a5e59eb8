/** The page about REST with curl: its commands are run, in their order, against the whole service. */
import t from 'tap';
import { startApiAndSupervisor } from '../deploy/service-fixture.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { whyMissing } from '../runner/programs.ts';
import { runShellBlocks } from './shell-blocks.ts';

t.test('the commands of the page', { skip: whyMissing('curl') || whyMissing('zip') }, async (t) => {
  const service = await startApiAndSupervisor(t);
  const env = {
    API: `${service.url}/api`,
    SESSION_API: `http://localhost:${service.env.SUPERVISOR_PORT}`,
    TOKEN: (await service.asUser('ann')).token,
  };
  const stdout = await runShellBlocks('rest-with-curl.md', env, await temporaryFolder(t));
  t.match(stdout, /"middleware":\["middleware\.systemPrompt"\]/);
  t.match(stdout, /You are helpful\.\\nClose by recommending a cup of Assam\./);
});
