/**
 * The walls, each taken down in turn: from inside the child, with what attackers try, nothing of the host is reached.
 * `fetch`, files and signals of the host are real and watched. A new probe is a row in `test/plugins/probes/`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { buildChild } from '../../sandbox-child/build.ts';
import type { Jail, Walls } from '../../supervisor/jail.ts';
import { temporaryFolder } from '../harness.ts';
import { PRELUDE, probes } from '../plugins/probes/probes.ts';
import { bundleOf, callTool, childProgram, type TestChild, testChild, testJail, toolOf } from './jailed-child.ts';

const OPEN_REALM = fileURLToPath(new URL('open-realm.ts', import.meta.url));
/** Every probe gives up on its own within half a second; the rest is for a busy machine. */
const PROBE_MS = 3_000;
/** Five combinations, half a hundred probes each. */
const ALL_MS = 180_000;
t.setTimeout(ALL_MS);
const SECRET = 'canary-4d1f5a2e';

interface Combination extends Walls {
  readonly name: string;
  readonly realm: boolean;
}
const combinations: readonly Combination[] = [
  { name: 'all walls', realm: true, node: true, os: true },
  { name: 'without L1, the realm', realm: false, node: true, os: true },
  { name: 'without L2, the node flags', realm: true, node: false, os: true },
  { name: 'without L3, the jail', realm: true, node: true, os: false },
  { name: 'L3 alone: raw Node in the jail', realm: false, node: false, os: true },
];

interface Host {
  readonly values: Readonly<Record<string, string>>;
  readonly sibling: ChildProcess;
  connections: number;
}

process.env.BULKHEAD_CANARY = SECRET;

async function listen(test: Test, host: Host, where: number | string): Promise<Server> {
  const server = createServer((socket) => {
    host.connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) =>
    typeof where === 'number' ? server.listen(where, '127.0.0.1', resolve) : server.listen(where, resolve),
  );
  test.teardown(() => new Promise((resolve) => server.close(resolve)));
  return server;
}

async function makeHost(test: Test): Promise<Host> {
  const folder = await temporaryFolder(test);
  const secretFile = join(folder, 'secret.txt');
  writeFileSync(secretFile, SECRET, { mode: 0o644 });
  const sibling = spawn('/bin/sleep', ['600'], { stdio: 'ignore' });
  test.teardown(() => new Promise((resolve) => sibling.once('exit', resolve) && sibling.kill('SIGKILL')));
  const values: Record<string, string> = { secretFile, socket: join(folder, 's.sock') };
  const host: Host = { values, sibling, connections: 0 };
  const server = await listen(test, host, 0);
  const address = server.address();
  values.port = String(typeof address === 'object' && address ? address.port : 0);
  await listen(test, host, join(folder, 's.sock'));
  values.hostPid = String(process.pid);
  values.siblingPid = String(sibling.pid);
  return host;
}

/** One tool that runs code it is given, so that many probes share a child. */
const EVALUATOR = `tools.run = { description: 'test', parameters: {}, handler: (args, ctx) => (0, eval)(args.code)(ctx) };`;

/** Runs probes in a child, and in a new one where a probe has ended the last. */
class Attacker {
  readonly #test: Test;
  readonly #jail: Jail;
  readonly #host: Host;
  #child: TestChild | null = null;

  constructor(test: Test, jail: Jail, host: Host) {
    this.#test = test;
    this.#jail = jail;
    this.#host = host;
  }

  /** What a probe answered, or null where it was stopped: by an exception, by its death, or by having nothing to say. */
  async run(probe: string): Promise<string | null> {
    const body = probe.replace(/\$(\w+)/g, (name, key) => this.#host.values[key] ?? name);
    const child = await this.#ready();
    try {
      const code = `(async function (ctx) { ${PRELUDE} ${body} })`;
      const outcome = await callTool(child, 'run', { code }, PROBE_MS);
      const answer = outcome.outcome === 'answered' ? outcome.answer : undefined;
      return answer === undefined || answer === '' || answer === null || answer === false ? null : String(answer);
    } catch {
      return null;
    }
  }

  async #ready(): Promise<TestChild> {
    if (this.#child?.state === 'loaded') return this.#child;
    this.#child = testChild(this.#test, this.#jail);
    await this.#child.load(bundleOf(EVALUATOR));
    return this.#child;
  }
}

for (const combination of combinations) {
  t.test(combination.name, async (t) => {
    const host = await makeHost(t);
    const program = combination.realm ? await childProgram() : await buildChild(OPEN_REALM);
    const jail = await testJail(t, { program, walls: combination });
    const attacker = new Attacker(t, jail, host);
    t.equal(await attacker.run('return ways.length > 20;'), 'true', 'probes run');
    for (const probe of probes) {
      const reached = await attacker.run(probe.code);
      t.equal(reached, null, `${probe.name} is stopped`);
    }
    t.equal(host.connections, 0, 'nobody connected');
    const state = readFileSync(`/proc/${host.sibling.pid}/stat`, 'latin1').split(') ')[1]?.[0];
    t.equal(state, 'S', 'the sibling runs on');
  });
}

t.test('the probes themselves reach things where no wall stands', async (t) => {
  const host = await makeHost(t);
  const jail = await testJail(t, { program: await buildChild(OPEN_REALM), walls: { node: false, os: false } });
  const attacker = new Attacker(t, jail, host);
  for (const name of [
    'read a host file',
    'connect to a port',
    'signal the supervisor',
    'run a shell',
    'read the accounts',
  ]) {
    const probe = probes.find((each) => each.name === name);
    t.not(await attacker.run(probe?.code ?? ''), null, name);
  }
});

t.test('a plugin with the system prompt hook alone has nothing on host', async (t) => {
  const child = testChild(t, await testJail(t));
  await child.load(
    bundleOf(toolOf('return Object.keys(host).concat(Object.keys(host.secrets));'), { members: ['secrets.get'] }),
  );
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: ['log', 'settings', 'secrets', 'get'] });
});
