/**
 * `kill -9` of each part while it works. Everything that was acknowledged before is there afterwards, queued work is
 * done, and no process is left behind.
 */
import { readFile } from 'node:fs/promises';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { connect } from '../../sdk/session/session.ts';
import { priorityAfterAsking } from '../fixtures/priorities.ts';
import { eventually } from '../runner/eventually.ts';
import { killProcess, temporaryFolder } from '../runner/harness.ts';
import { stillRunning } from './process-tree.ts';
import { type ServiceFixture, startServiceFixture } from './service-fixture.ts';
import { buildWorkshop, type Facts, unlessBroken, type Workshop } from './workshop.ts';

type Check = Pick<typeof t, 'equal' | 'match' | 'same'>;

interface Victim {
  /** The processes that are gone after the kill, found by their command lines. */
  pid(service: ServiceFixture): Promise<number>;
  /** What `npm start` prints when it is healed. */
  readonly healed: RegExp;
}

const byCommand = (part: string) => async (service: ServiceFixture) =>
  (await service.processes()).find(({ command }) => command.includes(part))?.pid ?? 0;

const victims = {
  supervisor: { pid: byCommand('supervisor/main.ts'), healed: /^The supervisor is running again/ },
  API: { pid: byCommand('api/main.ts'), healed: /^The API is running again/ },
  PostgreSQL: {
    pid: async ({ env }: ServiceFixture) =>
      Number.parseInt(await readFile(join(env.DATA_DIR ?? '', 'postgres/postmaster.pid'), 'utf8'), 10),
    healed: /^PostgreSQL is running again/,
  },
} as const satisfies Record<string, Victim>;

const DATA_DIR = await temporaryFolder(t);
// Stopped with the file, also the one that is started again in a test.
const start = (env = {}) => startServiceFixture(t, { ...env, DATA_DIR });
let service = await start();

/** @param during runs while the victim is killed, and kills it. @returns the sessions that it started */
const killAndCheck = (
  name: keyof typeof victims,
  during: (t: Check, user: ServiceFixture, kill: () => void) => Promise<string[]> = async (_t, _user, kill) => {
    kill();
    return [];
  },
) =>
  t.test(`the ${name} is killed, and comes back by itself`, async (t) => {
    const { pid, healed } = victims[name];
    const user = await service.asUser(name);
    const workshop = await buildWorkshop(user, `witness-of-${name.toLowerCase()}`);
    const before = await workshop.look();
    const queued = await workshop.queueEvents();
    const victim = await pid(service);
    const dead = (await service.processes()).filter((seen) => seen.pid === victim);
    t.equal(dead.length, 1, 'the victim was running');
    if (name !== 'PostgreSQL') t.equal(getPriority(victim), priorityAfterAsking(-5), 'it has the priority of requests');
    const started = await during(t, user, () => killProcess(victim));
    await service.line(healed);
    t.same(await stillRunning(dead), []);
    await check(t, workshop, before, [...queued, ...started]);
  });

killAndCheck('API');

t.test('everything is killed with its parent, and starts again at once', async (t) => {
  const workshop = await buildWorkshop(service);
  const before = await workshop.look();
  const queued = await workshop.queueEvents();
  await service.processes();
  service.kill('SIGKILL');
  await service.exited;
  const first = service;
  service = await start(first.env);
  t.same(await first.leftovers(), [], 'nothing of the first start is left');
  await check(t, workshop.in(service), before, queued);
});

killAndCheck('supervisor', callThroughKill);
killAndCheck('PostgreSQL');

/** An agent runtime with our client has every call answered. */
async function callThroughKill(t: Check, user: ServiceFixture, kill: () => void): Promise<string[]> {
  const client = connect({ url: `http://127.0.0.1:${service.env.SUPERVISOR_PORT}`, token: user.token });
  const session = await client.start({ agentId: 'a runtime' });
  const prompt = async () => {
    const { context, trace } = await session.hook('systemPrompt', { systemPrompt: 'Be brief.', model: 'any' });
    return trace[0]?.outcome === 'changed' && context.systemPrompt;
  };
  t.equal(await prompt(), 'Be brief. warm k3y');
  for (let call = 0; call < 50; call += 1) {
    if (call === 10) kill();
    // A plugin that is just starting again may be left out of its chain; the call is answered all the same.
    await prompt();
  }
  t.equal(await eventually(prompt), 'Be brief. warm k3y');
  return [session.id];
}

t.test('after all of that it stops without a trace', async (t) => {
  await service.processes();
  service.kill('SIGTERM');
  t.match(await service.exited, { code: 0 });
  t.same(await service.leftovers(), [], 'no process is left');
});

async function check(t: Check, workshop: Workshop, before: Facts, queued: readonly string[]): Promise<void> {
  // The service runs again; the connections of its parts to each other may come back a moment later.
  const after = await eventually(() => workshop.look().catch(unlessBroken));
  t.same({ ...after, lines: null }, { ...before, lines: null }, 'everything that was answered is there, unchanged');
  t.match(after.lines, before.lines, 'so are the log lines that could be read');
  t.equal(await eventually(() => workshop.prompt().catch(unlessBroken)), 'Be brief. warm k3y', 'hooks work');
  await eventually(() => workshop.release().catch(unlessBroken));
  const delivered = async () => {
    const done = Object.entries(await workshop.seen()).filter(([key]) => key.startsWith('done '));
    return queued.every((session) => done.some(([, value]) => value === session)) && done;
  };
  const done = await eventually(() => delivered().catch(unlessBroken));
  t.equal(done.length, queued.length + 2, 'every event was delivered under the one id it has');
  t.equal(await workshop.publish('1.1.0'), 201, 'and a next version can be published');
}
