/** The first steps of a newcomer: start everything, run the demo, stop everything. On free ports and in a folder of its own. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { freePorts, startApiAndSupervisor, startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { root } from '../house/source-files.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { isSoak } from '../runner/soak.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** One without a developer's `.env`. */
const FOLDER = '/';

async function run(script: string, args: readonly string[], env: Environment) {
  return promisify(execFile)(process.execPath, [join(root, script), ...args], { cwd: FOLDER, env });
}

t.test('start, demo, stop', async (t) => {
  // In every run, the tests of deploy/ start and stop the process that `npm start` runs.
  const started = isSoak() ? await startServiceOnTestDatabase(t) : null;
  const service = started ?? (await startApiAndSupervisor(t));
  if (started) t.ok(started.lines.some((line) => line.startsWith(`bulkhead ready ${service.url}/`)));

  // The demo finds the service by the ports of its environment.
  const { TOKEN: _, ...inherited } = process.env;
  const env = { ...inherited, ...service.env, NO_COLOR: '1' };
  if (isSoak()) await run('examples/demo.ts', [], env);
  const first = await run('examples/demo.ts', ['--keep'], env);
  t.match(first.stdout, 'Everything held.');
  t.notMatch(first.stdout, 'FAILED');
  t.match(first.stdout, /^[\n -~]*$/, 'plain ASCII where it is no terminal');

  const user = await service.asUser('demo');
  // What runs is left out: the memory of a process changes by itself.
  const installed = async (): Promise<readonly { slug: string; settings: object }[]> =>
    (await user.call('GET', '/api/installations')).body.items.map(
      ({ runtime: _, ...rest }: { runtime: object }) => rest,
    );
  const kept = await installed();
  t.match(kept.find(({ slug }) => slug === 'house-style')?.settings, { style: 'Answer as a pirate.' });
  // Each would create a token itself, in a process of its own.
  const signedIn = { ...env, TOKEN: user.token };
  const example = (...names: string[]) => run('examples/publish.ts', names, signedIn);
  if (isSoak()) {
    const refused = await run('examples/demo.ts', [], signedIn).catch((error: unknown) => error);
    t.match(refused, { code: 1, stdout: /house-style is already installed for this user.* another user.*--replace\n/ });
    t.same(await installed(), kept, 'it changes no installation that it did not make');
    const again = await run('examples/demo.ts', ['--replace'], signedIn);
    t.match(again.stdout, /1\.0\.[12]/, 'runs again with the next versions');
    t.match(again.stdout, 'Everything held.', 'and over what an earlier run kept, if asked to');
    t.same(await installed(), []);
  }

  t.match((await example('prompt-pack')).stdout, /prompt-pack 1\.0\.0: commands .*\n {2}installed as \S+, ready/);
  if (isSoak()) {
    t.match((await example('prompt-pack')).stdout, 'prompt-pack 1.0.1', 'the next version');
    t.match((await example()).stdout, /Examples\n.* {2}telegram-bot/s, 'without a name it lists them');
    const unheard = await example('dise').catch((error: unknown) => error);
    t.match(unheard, { code: 1, stderr: /There is no example dise\. There are .*dice/ });
  }

  started?.kill('SIGTERM');
  if (started) t.equal((await started.exited).code, 0, 'a clean stop');
});

t.test('without a service they say what to do, and where they looked', async (t) => {
  const { PORT } = await freePorts();
  const env = { ...process.env, PORT };
  const words = `nothing answers at http://localhost:${PORT}/api: start it with npm start`;
  const demo = await run('examples/demo.ts', [], env).catch((error: unknown) => error);
  t.match(demo, { code: 1, stdout: words });
  if (!isSoak()) return;
  const example = await run('examples/publish.ts', ['dice'], env).catch((error: unknown) => error);
  t.match(example, { code: 1, stderr: `${words}\n` });
  const cwd = await temporaryFolder(t);
  await writeFile(join(cwd, '.env'), `PORT=${PORT}\n`);
  const inFile = promisify(execFile)(process.execPath, [join(root, 'examples/demo.ts')], { cwd });
  t.match(await inFile.catch((error: unknown) => error), { code: 1, stdout: words }, 'the port of .env');
});
