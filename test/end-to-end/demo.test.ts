/** The first steps of a newcomer: start everything, run the demo, stop everything. On free ports and in a folder of its own. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import t from 'tap';
import { Service } from '../../examples/demo-service.ts';
import type { Page } from '../../sdk/session/api-types.ts';
import { freePorts } from '../deploy/service-fixture.ts';
import { root } from '../house/source-files.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { isSoak } from '../runner/soak.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** One without a developer's `.env`. */
const FOLDER = '/';

function startService(env: Environment): ChildProcess {
  // Its own process group: a Ctrl-C at the tests' terminal is not for it.
  const stdio = ['ignore', 'pipe', 'ignore'] as const;
  return spawn(process.execPath, [join(root, 'deploy/local.ts')], {
    cwd: FOLDER,
    env,
    stdio: [...stdio],
    detached: true,
  });
}

async function ready(service: ChildProcess): Promise<string> {
  if (!service.stdout) throw new Error('the service has no output');
  const lines = createInterface({ input: service.stdout });
  for await (const line of lines) {
    if (!line.startsWith('bulkhead ready')) continue;
    // An unread pipe would block the service at its next line.
    service.stdout.resume();
    return line;
  }
  throw new Error('the service ended before it was ready');
}

async function run(script: string, args: readonly string[], env: Environment) {
  return promisify(execFile)(process.execPath, [join(root, script), ...args], { cwd: FOLDER, env });
}

t.test('start, demo, stop', async (t) => {
  const ports = await freePorts();
  const { TOKEN: _, ...inherited } = process.env;
  const { url: DATABASE_URL } = await testDatabase(t);
  const DATA_DIR = join(await temporaryFolder(t), 'data');
  const env = { ...inherited, ...ports, DATA_DIR, DATABASE_URL, NO_COLOR: '1' };
  const service = startService(env);
  const stopped = once(service, 'exit');
  t.teardown(async () => {
    service.kill('SIGTERM');
    await stopped;
  });
  t.match(await ready(service), `bulkhead ready http://localhost:${ports.PORT}/`);

  // The demo finds the service by the ports of its environment.
  if (isSoak()) await run('examples/demo.ts', [], env);
  const first = await run('examples/demo.ts', ['--keep'], env);
  t.match(first.stdout, 'Everything held.');
  t.notMatch(first.stdout, 'FAILED');
  t.match(first.stdout, /^[\n -~]*$/, 'plain ASCII where it is no terminal');

  const TOKEN = (await run('deploy/token.ts', ['demo'], env)).stdout.trim();
  const api = new Service(`http://localhost:${ports.PORT}/api`, TOKEN);
  // What runs is left out: the memory of a process changes by itself.
  const installed = async () =>
    (await api.get<Page<{ slug: string; settings: object; runtime: object }>>('/installations')).items.map(
      ({ runtime: _, ...rest }) => rest,
    );
  const kept = await installed();
  t.match(kept.find(({ slug }) => slug === 'house-style')?.settings, { style: 'Answer as a pirate.' });
  // Each would print another one itself, in a process of its own.
  const signedIn = { ...env, TOKEN };
  const refused = await run('examples/demo.ts', [], signedIn).catch((error: unknown) => error);
  t.match(refused, { code: 1, stdout: /house-style is already installed for this user.* another user.*--replace\n/ });
  t.same(await installed(), kept, 'it changes no installation that it did not make');

  if (isSoak()) {
    const again = await run('examples/demo.ts', ['--replace'], signedIn);
    t.match(again.stdout, /1\.0\.[12]/, 'runs again with the next versions');
    t.match(again.stdout, 'Everything held.', 'and over what an earlier run kept, if asked to');
    t.same(await installed(), []);
  }

  const example = (...names: string[]) => run('examples/publish.ts', names, signedIn);
  t.match((await example('prompt-pack')).stdout, /prompt-pack 1\.0\.0: commands .*\n {2}installed as \S+, ready/);
  if (isSoak()) t.match((await example('prompt-pack')).stdout, 'prompt-pack 1.0.1', 'the next version');
  t.match((await example()).stdout, /Examples\n.* {2}telegram-bot/s, 'without a name it lists them');
  const unheard = await example('dise').catch((error: unknown) => error);
  t.match(unheard, { code: 1, stderr: /There is no example dise\. There are .*dice/ });

  service.kill('SIGTERM');
  const [code] = await stopped;
  t.equal(code, 0, 'a clean stop');
});

t.test('without a service they say what to do, and where they looked', async (t) => {
  const { PORT } = await freePorts();
  const env = { ...process.env, PORT };
  const words = `nothing answers at http://localhost:${PORT}/api: start it with npm start`;
  const demo = await run('examples/demo.ts', [], env).catch((error: unknown) => error);
  t.match(demo, { code: 1, stdout: words });
  const example = await run('examples/publish.ts', ['dice'], env).catch((error: unknown) => error);
  t.match(example, { code: 1, stderr: `${words}\n` });
  const cwd = await temporaryFolder(t);
  await writeFile(join(cwd, '.env'), `PORT=${PORT}\n`);
  const inFile = promisify(execFile)(process.execPath, [join(root, 'examples/demo.ts')], { cwd });
  t.match(await inFile.catch((error: unknown) => error), { code: 1, stdout: words }, 'the port of .env');
});
