/**
 * Runs the probes of an attacker inside a child, with each wall taken down in turn. They must reach nothing of the host, whose
 * servers, files and signals are real and monitored. A new probe is a row in `test/plugins/probes/`.
 *
 * The soak run and `UPDATE_ESCAPES=1`, which writes the table of escapes in docs/security-model.md, run every probe in every
 * combination of walls. The quick run tries every way to reach something once with all walls, and of the rest a sample that
 * differs by combination.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stop as stopEsbuild } from 'esbuild';
import t, { type Test } from 'tap';
import { buildChild } from '../../../sandbox-child/build-child.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { cacheProgram } from '../../../supervisor/jail/cached-program.ts';
import type { Jail, Walls } from '../../../supervisor/jail/jail.ts';
import { Attacker } from '../../plugins/probes/attacker.ts';
import { EVERY_MEMBER, type Goal, groups, type ProbeGroup } from '../../plugins/probes/groups.ts';
import type { Probe } from '../../plugins/probes/probe.ts';
import { type Escapes, escapesTable, publishedTable, publishTable } from '../../plugins/probes/table.ts';
import { childProgram } from '../../runner/child-program.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../children/jailed-child.ts';

const openRealmProgram = await buildChild(fileURLToPath(new URL('open-realm.ts', import.meta.url)));
// The bundler's process would be counted as left behind.
await stopEsbuild();
/** Concurrent children at most: enough for two cores, and more for probes that mostly wait for a response that never comes. */
const ATTACKERS: Readonly<Record<Goal, number>> = {
  reach: amount({ quick: 3, soak: 6 }),
  exhaust: amount({ quick: 3, soak: 6 }),
  forge: amount({ quick: 5, soak: 12 }),
  register: amount({ quick: 3, soak: 6 }),
};
/** Probes that reach or forge something share a child: fewer than this are not worth the start of another one. */
const PROBES_PER_CHILD = 10;
const isUpdate = process.env.UPDATE_ESCAPES === '1';
/** One probe of this many is in the sample, a different one in each combination. */
const SAMPLE_STEP = isUpdate ? 1 : amount({ quick: 30, soak: 1 });
/** Largest growth of the supervisor's memory after a combination. */
const GROWTH_MAX_BYTES = 200 * MIB;
const SECRET = 'canary-4d1f5a2e';

interface Combination extends Walls {
  readonly name: string;
  readonly realm: boolean;
  /** The probes to try: exhaustion and the protocol are the same without L2 alone or L3 alone. */
  readonly goals: readonly Goal[];
  /** Goals whose probes are all tried in the quick run, too. */
  readonly unsampled?: readonly Goal[];
}
const ALL: readonly Goal[] = ['reach', 'exhaust', 'forge', 'register'];
const combinations: readonly Combination[] = [
  { name: 'all walls', realm: true, node: true, os: true, goals: ALL, unsampled: ['reach'] },
  { name: 'without L1, the realm', realm: false, node: true, os: true, goals: ALL },
  { name: 'without L2, the node flags', realm: true, node: false, os: true, goals: ['reach'] },
  { name: 'without L3, the jail', realm: true, node: true, os: false, goals: ['reach'] },
  { name: 'L3 alone: raw Node in the jail', realm: false, node: false, os: true, goals: ALL },
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
  const values: Record<string, string> = {
    // Reversed, so that a probe that searches its own memory for the secret does not find its own text.
    secretFile,
    socket: join(folder, 's.sock'),
    hostname: hostname(),
    yranac: [...SECRET].reverse().join(''),
    uid: String(process.getuid?.() ?? 0),
    foreign: 'invocation-of-another',
  };
  const host: Host = { values, sibling, connections: 0 };
  const server = await listen(test, host, 0);
  const address = server.address();
  values.port = String(typeof address === 'object' && address ? address.port : 0);
  await listen(test, host, join(folder, 's.sock'));
  values.hostPid = String(process.pid);
  values.siblingPid = String(sibling.pid);
  return host;
}

const measured: Record<string, Record<string, Escapes>> = {};

/** Lists the probes of a group that this run tries in a combination. */
function sampleProbes({ goal, probes }: ProbeGroup, combination: Combination): readonly Probe[] {
  if (combination.unsampled?.includes(goal)) return probes;
  const offset = combinations.indexOf(combination);
  return probes.filter((_, index) => (index + offset) % SAMPLE_STEP === 0);
}

/** Runs these probes in several children. @returns what escaped, as `name: what it reached` */
async function attackAll(attackers: readonly Attacker[], goal: Goal, probes: readonly Probe[]): Promise<string[]> {
  const escaped: string[] = [];
  const queue = [...probes];
  const worthStarting = goal === 'reach' || goal === 'forge' ? Math.ceil(probes.length / PROBES_PER_CHILD) : Infinity;
  await Promise.all(
    attackers.slice(0, Math.min(ATTACKERS[goal], worthStarting)).map(async (attacker) => {
      for (let probe = queue.shift(); probe; probe = queue.shift()) {
        const reached = await attacker.attack(goal, probe);
        if (reached !== null) escaped.push(`${probe.name}: ${reached}`);
      }
    }),
  );
  return escaped;
}

/** Returns the attackers to whom these members are granted; the same ones for the same members. */
type Attackers = (members: readonly string[]) => readonly Attacker[];

async function attackersOf(t: Test, combination: Combination, host: Host): Promise<Attackers> {
  const program = combination.realm ? await childProgram() : openRealmProgram;
  const cachedProgram = await cacheProgram(program);
  const jail: Jail = await testJail(t, { program, cachedProgram, walls: combination });
  const values = { ...host.values, realm: String(combination.realm) };
  const known = new Map<readonly string[], readonly Attacker[]>();
  const count = Math.max(...Object.values(ATTACKERS));
  return (members) => {
    const attackers = known.get(members) ?? Array.from({ length: count }, () => new Attacker(t, jail, values, members));
    known.set(members, attackers);
    return attackers;
  };
}

/** Longest duration of a probe that must succeed, on a busy machine. Milliseconds. */
const CONTROL_MS = 10_000;

for (const combination of combinations) {
  t.test(combination.name, async (t) => {
    const host = await makeHost(t);
    const attackers = await attackersOf(t, combination, host);
    t.equal(await attackers(EVERY_MEMBER)[0]?.run('return ways.length > 20;', CONTROL_MS), 'true', 'probes run');
    const before = process.memoryUsage().rss;
    const row: Record<string, Escapes> = {};
    measured[combination.name] = row;
    for (const group of groups) {
      if (!combination.goals.includes(group.goal)) continue;
      const probes = sampleProbes(group, combination);
      const started = performance.now();
      const escaped = await attackAll(attackers(group.members ?? EVERY_MEMBER), group.goal, probes);
      row[group.name] = { tried: group.probes.length, escaped: escaped.length };
      t.comment(`${group.name}: ${probes.length} in ${((performance.now() - started) / 1000).toFixed(1)} s`);
      t.same(escaped, [], `${group.name}: all ${probes.length} are stopped`);
    }
    t.ok(process.memoryUsage().rss - before < GROWTH_MAX_BYTES, 'the supervisor kept its size');
    t.equal(host.connections, 0, 'no connection was made');
    const state = readFileSync(`/proc/${host.sibling.pid}/stat`, 'latin1').split(') ')[1]?.[0];
    t.equal(state, 'S', 'the sibling runs on');
    t.equal(readFileSync(host.values.secretFile ?? '', 'utf8'), SECRET, 'the file of the host is as it was');
    t.ok(statSync('/dev/null').isCharacterDevice(), 'and so is its /dev/null');
  });
}

t.test('the table of escapes is the published one', async (t) => {
  const table = escapesTable(measured);
  for (const line of table.split('\n')) t.comment(line);
  if (isUpdate) publishTable(table);
  t.equal(publishedTable(), table, 'UPDATE_ESCAPES=1 writes it into docs/security-model.md');
  const tried = groups.reduce((sum, { probes }) => sum + probes.length, 0);
  t.ok(tried >= 300, `${tried} probes`);
  const names = groups.flatMap(({ name, probes }) => probes.map((probe) => `${name}: ${probe.name}`));
  t.equal(new Set(names).size, names.length, 'every probe has a name of its own');
});

t.test('the probes themselves reach things where no wall stands', async (t) => {
  const host = await makeHost(t);
  const jail = await testJail(t, { program: openRealmProgram, walls: { node: false, os: false } });
  const attacker = new Attacker(t, jail, { ...host.values, realm: 'false' }, EVERY_MEMBER);
  const probes = groups.flatMap((group) => group.probes);
  for (const name of [
    'read a host file',
    'connect to a port',
    'signal the supervisor',
    'run a shell',
    'read the accounts',
    'CVE-2023-39332: a Uint8Array path',
    'the constructor of an async function',
    'this of a sloppy function',
    "Function('return this')",
    'the resolver',
    'HTTP/2',
  ]) {
    const probe = probes.find((each) => each.name === name);
    t.not(await attacker.run(probe?.code ?? '', CONTROL_MS), null, name);
  }
});

t.test('a plugin with the system prompt hook alone has nothing on host', async (t) => {
  const child = testChild(t, await testJail(t));
  await child.load(
    bundleOf(toolOf('return Object.keys(host).concat(Object.keys(host.secrets));'), { members: ['secrets.get'] }),
  );
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: ['log', 'settings', 'secrets', 'get'] });
});
