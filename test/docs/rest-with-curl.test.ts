/** The page about REST with curl: its commands are run, in their order, against the whole service. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { startApiAndSupervisor } from '../deploy/service-fixture.ts';
import { temporaryFolder } from '../runner/harness.ts';

const run = promisify(execFile);
const page = readFileSync(fileURLToPath(new URL('../../docs/rest-with-curl.md', import.meta.url)), 'utf8');
const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
const hasPrograms = await Promise.all([run('curl', ['--version']), run('zip', ['--version'])]).then(
  () => true,
  () => false,
);

t.test('the commands of the page', { skip: hasPrograms ? false : 'no curl or no zip' }, async (t) => {
  const service = await startApiAndSupervisor(t);
  const env = {
    PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`,
    API: `${service.url}/api`,
    SESSION_API: `http://localhost:${service.env.SUPERVISOR_PORT}`,
    TOKEN: (await service.asUser('ann')).token,
  };
  const cwd = await temporaryFolder(t);
  const { stdout } = await run('sh', ['-eu', '-c', blocks.join('\n')], { env, cwd });
  t.match(stdout, /"middleware":\["middleware\.systemPrompt"\]/);
  t.match(stdout, /You are helpful\.\\nClose by recommending a cup of Assam\./);
});
