import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { replaceServices } from '../../deploy/replacement.ts';
import { MALLOC_ENVIRONMENT, ServiceProcess } from '../../deploy/service-process.ts';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { killProcess, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { amount, isSoak, soakTest } from '../runner/soak.ts';

const MAIN = fileURLToPath(new URL('./service.ts', import.meta.url));
const patient = new AbortController().signal;
/** A loaded machine takes its time to start node, milliseconds. */
const PATIENCE_MS = 20_000;

interface Watched {
  readonly service: ServiceProcess;
  readonly lines: string[];
  readonly notices: string[];
}

function make(
  behaviour: string,
  variables: Readonly<Record<string, string>> = {},
  checkStart = async (): Promise<void> => undefined,
): Watched {
  const lines: string[] = [];
  const notices: string[] = [];
  const env = { ...bareEnvironment, BEHAVIOUR: behaviour, ...variables };
  const onLine = (line: string): number => lines.push(line);
  const onNotice = (sentence: string): number => notices.push(sentence);
  return {
    service: new ServiceProcess({ name: 'API', main: MAIN, env, checkStart, onLine, onNotice }),
    lines,
    notices,
  };
}

const pids = (lines: string[]): number[] =>
  lines.flatMap((line) => (line.startsWith('pid ') ? [Number(line.slice(4))] : []));

/** The ids, once so many are printed: the message that a process is ready may arrive before its output. */
async function waitForPids(lines: string[], count: number): Promise<number[]> {
  await until(() => pids(lines).length >= count);
  return pids(lines);
}

async function killFirst(lines: string[]): Promise<void> {
  const [first] = await waitForPids(lines, 1);
  killProcess(first);
}

async function until(condition: () => boolean | Promise<boolean>): Promise<boolean> {
  for (let waited = 0; waited < PATIENCE_MS; waited += 50) {
    if (await condition()) return true;
    await sleep(50);
  }
  return condition();
}

async function isGone(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat === '' || /\) Z /.test(stat);
}

t.test('starts the process, forwards its output, and drains on stop', async (t) => {
  const { service, lines, notices } = make('serves');
  await service.start();
  t.same(notices, ['A part is missing: install it.']);
  await service.stop(patient);
  t.same(lines.slice(1), ['drained\u2028well']);
});

t.test('a process that serves but is not ready says why', async (t) => {
  const { service, notices } = make('has-a-full-disk');
  await service.start();
  t.same(notices, ['The API is not ready: DATA_DIR is full.']);
  await service.stop(patient);
});

t.test('a process that ends by itself is started again until it is stopped', async (t) => {
  const { service, lines, notices } = make('serves');
  await service.start();
  await killFirst(lines);
  t.ok(await until(() => notices.includes('The API is running again.')));
  t.ok(notices.includes('The API ended (SIGKILL). Restarting it in 250 ms.'));
  t.equal((await waitForPids(lines, 2)).length, 2);
  await service.stop(patient);
  const ends = notices.filter((notice) => notice.startsWith('The API ended'));
  t.equal(ends.length, 1, 'the end of a stopped one is no reason to restart it');
  t.equal(pids(lines).length, 2);
});

soakTest(t, 'a process that is replaced during its restart is not left running', async (t) => {
  const restart = Promise.withResolvers<void>();
  const replaced = Promise.withResolvers<void>();
  let starts = 0;
  const { service, lines } = make('serves', {}, async () => {
    starts += 1;
    if (starts === 1) return;
    restart.resolve();
    await replaced.promise;
  });
  await service.start();
  await killFirst(lines);
  await restart.promise;
  const successor = await service.startSuccessor(PATIENCE_MS);
  await successor.serve();
  await successor.takeOver();
  const [, newest = 0] = await waitForPids(lines, 2);
  replaced.resolve();
  t.ok(await until(() => pids(lines).length === 3));
  t.ok(await until(() => isGone(pids(lines)[2] ?? 0)));
  t.notOk(await isGone(newest));
  await service.stop(patient);
});

for (const [name, blocked] of [
  ['a first start', 1],
  ['a restart', 2],
] as const)
  t.test(`a stop during the check before ${name} leaves no process running`, async (t) => {
    const checking = Promise.withResolvers<void>();
    const checked = Promise.withResolvers<void>();
    let checks = 0;
    const { service, lines } = make('serves', {}, async () => {
      checks += 1;
      if (checks < blocked) return;
      checking.resolve();
      await checked.promise;
    });
    t.teardown(() => {
      for (const pid of pids(lines).slice(blocked - 1)) process.kill(pid, 'SIGKILL');
    });
    const started = service.start();
    if (blocked === 2) {
      await started;
      await killFirst(lines);
    }
    await checking.promise;
    let isStopped = false;
    void service.stop(patient).then(() => {
      isStopped = true;
    });
    checked.resolve();
    if (blocked === 1) await t.rejects(started, { message: 'The API is stopping.' });
    t.ok(await until(() => isStopped || pids(lines).length === blocked));
    t.ok(isStopped);
    t.equal(pids(lines).length, blocked - 1);
  });

t.test('a successor that fails or has a weaker sandbox replaces nothing and is not left running', async (t) => {
  const { url } = await testDatabase(t);
  const env = { ...bareEnvironment, DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  const [good, broken, weaker] = [
    make('serves'),
    make('starts-once', { FOLDER: await temporaryFolder(t) }),
    make('weakens'),
  ];
  const all = [good, broken, weaker];
  await Promise.all(all.map(({ service }) => service.start()));
  const services = [good.service, broken.service];
  await t.rejects(replaceServices({ services, env, readyTimeoutMs: PATIENCE_MS, signal: patient }), {
    message: 'It has started before.',
  });
  await t.rejects(weaker.service.startSuccessor(PATIENCE_MS), {
    message: "The sandbox of the new API is weaker than the old one's. Install bubblewrap.",
  });
  for (const { lines } of all) {
    const [old = 0, successor = 0] = await waitForPids(lines, 2);
    t.notOk(await isGone(old));
    t.ok(await isGone(successor));
  }
  await Promise.all(all.map(({ service }) => service.stop(patient)));
});

t.test('a process that cannot start reports one sentence', async (t) => {
  await t.rejects(make('crashes').service.start(), {
    message: 'The API ended while starting: TypeError: nothing there',
  });
  if (!isSoak()) return;
  await t.rejects(make('refuses').service.start(), { message: 'SETTING must be nice.' });
  await t.rejects(make('killed').service.start(), { message: 'The API ended while starting: SIGKILL' });
});

t.test('each failed restart is reported as such, not as another end of the first process', async (t) => {
  const folder = await temporaryFolder(t);
  const { service, lines, notices } = make('starts-once', { FOLDER: folder });
  await service.start();
  await killFirst(lines);
  const expected = amount({ quick: 3, soak: 5 });
  t.ok(await until(() => notices.length >= expected));
  await service.stop(patient);
  const sentences = [
    'The API ended (SIGKILL). Restarting it in 250 ms.',
    'It has started before.',
    'The API did not start. Trying again in 500 ms.',
    'It has started before.',
    'The API did not start. Trying again in 1000 ms.',
  ];
  t.same(notices.slice(0, expected), sentences.slice(0, expected));
});

t.test('one that does not drain is ended by force', async (t) => {
  const { service, lines } = make('hangs-on-stop');
  await service.start();
  const force = new AbortController();
  setTimeout(() => force.abort(), 300);
  await service.stop(force.signal);
  t.ok(await isGone(pids(lines)[0] ?? 0));
});

t.test('the process exits when its parent is killed', (t) => killParent(t, 'serves'));
soakTest(t, 'it exits then also when its stop hangs', (t) => killParent(t, 'hangs-in-stop'));
soakTest(t, 'it exits then also when it logs what the parent no longer reads', (t) => killParent(t, 'logs-in-stop'));

async function killParent(t: Test, behaviour: string): Promise<void> {
  const script = `
    import { ServiceProcess } from ${JSON.stringify(new URL('../../deploy/service-process.ts', import.meta.url).href)};
    const env = { ...${JSON.stringify(bareEnvironment)}, BEHAVIOUR: '${behaviour}' };
    const onLine = (line) => console.log(line);
    await new ServiceProcess({ name: 'API', main: ${JSON.stringify(MAIN)}, env, onLine, onNotice() {} }).start();`;
  const parent: ChildProcess = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => parent.kill('SIGKILL'));
  if (parent.stdout === null) throw new Error('no output');
  const [line] = await once(createInterface({ input: parent.stdout }), 'line');
  const [pid = 0] = pids([String(line)]);
  t.notOk(await isGone(pid));
  parent.kill('SIGKILL');
  t.ok(await until(() => isGone(pid)));
}

/** Prints how many bytes the system got back of a thousand chunks of bodies, with small buffers between that stay. */
const PEAK = `
  const [chunks, small] = [[], []];
  for (let index = 0; index < 1000; index += 1) {
    chunks.push(Buffer.allocUnsafeSlow(65_536).fill(1));
    small.push(Buffer.allocUnsafeSlow(5_000).fill(1));
  }
  const before = process.memoryUsage.rss();
  const giveUpAt = Date.now() + 10_000;
  chunks.length = 0;
  // V8 frees buffers on another thread.
  const report = () => {
    gc();
    const returned = before - process.memoryUsage.rss();
    if (returned > 5e7 || Date.now() > giveUpAt) console.log(returned, small.length);
    else setImmediate(report);
  };
  report();
`;

soakTest(t, 'the chunks of bodies go back to the system, whatever lies between', async (t) => {
  const env = { ...bareEnvironment, ...MALLOC_ENVIRONMENT };
  const child = spawn(process.execPath, ['--expose-gc', '--eval', PEAK], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  for await (const chunk of child.stdout) output += chunk;
  const returned = Number(output.split(' ')[0]);
  t.ok(returned > 50_000_000, `${returned} of 65,536,000 bytes`);
});
