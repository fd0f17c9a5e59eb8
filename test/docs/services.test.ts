/** The page about services: what it says is run, with curl, against a session API. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';

const run = promisify(execFile);
const page = readFileSync(fileURLToPath(new URL('../../docs/services.md', import.meta.url)), 'utf8');
const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
const hasCurl = await run('curl', ['--version']).then(
  () => true,
  () => false,
);

t.test('the requests of the page', { skip: hasCurl ? false : 'no curl' }, async (t) => {
  const fixture = await startSupervisorFixture(t);
  const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  const env = {
    PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`,
    SESSION_API: url,
    TOKEN: await fixture.issuer.issue('ann'),
  };
  const { stdout } = await run('sh', ['-eu', '-c', blocks.join('\n')], { env });
  t.match(
    stdout,
    /"id":"flour","title":"Buy flour".*"todos":\[\{"id":"flour".*true\nBuy flour\n2099-01-05T06:00:00.000Z\nTurn the oven on\nplanner\nThe bread is done.\n$/s,
  );
});
