/**
 * API and supervisor are replaced under load: no request is refused or gets anything but a good answer, and no forbidden
 * message passes a required plugin. Where the supervisor is killed instead, a client that repeats its call is answered.
 */
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { fileList, MINIMAL } from '../api/package/packages.ts';
import { killProcess } from '../runner/harness.ts';
import { amount } from '../runner/soak.ts';
import { type ServiceFixture, startServiceOnTestDatabase } from './service-fixture.ts';

t.setTimeout(600_000);
/** Replacements in a row. */
const RESTARTS = amount({ quick: 2, soak: 20 });
const PER_SECOND = 50;

interface Tally {
  good: number;
  readonly bad: string[];
}

/** One request on a connection of its own: what a deploy refuses, it refuses here. */
function ask(url: string, token: string, tally: Tally): void {
  const call = request(url, { agent: false, headers: { authorization: `Bearer ${token}` } }, (answer) => {
    answer.resume();
    if (answer.statusCode === 200) tally.good += 1;
    else tally.bad.push(`${answer.statusCode} ${url}`);
  });
  call.on('error', (error) => tally.bad.push(`${error.message} ${url}`));
  call.end();
}

t.test('requests go on through one replacement after another', async (t) => {
  const service = await startServiceOnTestDatabase(t, { READS_PER_MINUTE: '1000000' });
  const tally: Tally = { good: 0, bad: [] };
  const urls = [`${service.url}/api/me`, `http://localhost:${service.env.SUPERVISOR_PORT}/sessions`];
  let sent = 0;
  const timer = setInterval(() => ask(urls[sent++ % 2] as string, service.token, tally), 1000 / PER_SECOND);
  const kept = keepAsking(urls, service.token, tally);
  const guard = await startGuard(service);
  const before = await service.processes();
  for (let round = 1; round <= RESTARTS; round += 1) {
    service.kill('SIGUSR2');
    while (service.lines.filter((line) => line.startsWith('replaced:')).length < round) {
      const failed = service.lines.find((line) => line.startsWith('not replaced'));
      if (failed) throw new Error(failed);
      await sleep(50);
    }
  }
  clearInterval(timer);
  await kept.stop();
  const { passed, stopped, other } = await guard.stop();
  t.same(tally.bad, []);
  t.same(other, [], 'forbidden messages are cancelled by the plugin, the others go on');
  t.ok(passed > 20 && stopped > 20, `${stopped} forbidden messages stopped, ${passed} others passed`);
  t.ok(tally.good > 50, `${tally.good} answers over ${RESTARTS} replacements`);
  t.comment(`${tally.good} good answers, ${tally.bad.length} bad, ${RESTARTS} replacements`);
  const after = new Set((await service.processes()).map((seen) => seen.pid));
  t.ok(before.some((seen) => !after.has(seen.pid)));

  const supervisor = (await service.processes()).find(({ command }) => command.includes('supervisor/main.ts'));
  const asking = Array.from({ length: 20 }, () => askAgain(urls[1] as string, service.token));
  killProcess(supervisor?.pid);
  asking.push(...Array.from({ length: 20 }, () => askAgain(urls[1] as string, service.token)));
  t.ok((await Promise.all(asking)).every((status) => status === 200));
});

interface Guard {
  /** Sends no more messages and waits for the answers. */
  stop(): Promise<{ readonly passed: number; readonly stopped: number; readonly other: readonly string[] }>;
}

/** Takes 250 ms for each message, so that calls are under way at every moment, and cancels forbidden ones. */
const GUARD = `middleware.inboundMessage = async (ctx) => {
  await new Promise((resolve) => setTimeout(resolve, 250));
  if (ctx.message.text === 'forbidden') ctx.cancel('it is forbidden');
  return {};
};`;

/** Installs a required plugin and sends forbidden and other messages in turn. */
async function startGuard(service: ServiceFixture): Promise<Guard> {
  const { id } = (await service.call('POST', '/api/plugins', { slug: 'guard', displayName: 'Guard' })).body;
  const files = fileList({ ...MINIMAL, 'index.ts': GUARD });
  await service.call('POST', `/api/plugins/${id}/versions`, { semVer: '1.0.0', files });
  await service.call('POST', '/api/installations', { slug: 'guard', required: true });
  const session = (await service.session('POST', '/sessions', { agentId: 'agent-1' })).body.id;
  const sent: Promise<void>[] = [];
  const counts = { passed: 0, stopped: 0, other: [] as string[] };
  const send = async (text: string) => {
    const message = { id: 'm', from: 'bob', text, attachments: [] };
    const path = `/sessions/${session}/hooks/inboundMessage`;
    const { status, body } = await service.session('POST', path, { context: { message } });
    if (text === 'forbidden' && body.action === 'cancel' && body.reason === 'it is forbidden') counts.stopped += 1;
    else if (text !== 'forbidden' && body.action === 'continue' && body.trace.length === 1) counts.passed += 1;
    else counts.other.push(`${text}: ${status} ${JSON.stringify(body)}`);
  };
  const timer = setInterval(() => {
    const text = sent.length % 2 === 0 ? 'forbidden' : 'fine';
    sent.push(send(text).catch((error: Error) => void counts.other.push(`${text}: ${error.cause ?? error}`)));
  }, 1000 / PER_SECOND);
  return {
    stop: async () => {
      clearInterval(timer);
      await Promise.all(sent);
      return counts;
    },
  };
}

/** A client that repeats a call which was cut off, or answered with "later". Answers the status it ends with. */
async function askAgain(url: string, token: string): Promise<number> {
  for (const until = Date.now() + 60_000; ; await sleep(200)) {
    const headers = { authorization: `Bearer ${token}`, connection: 'close' };
    const answer = await fetch(url, { headers }).catch(() => null);
    await answer?.arrayBuffer().catch(() => undefined);
    if (answer !== null && answer.status !== 503) return answer.status;
    if (Date.now() > until) return answer?.status ?? 0;
  }
}

/** Clients that keep their connections, one request after another. */
function keepAsking(urls: readonly string[], token: string, tally: Tally): { stop(): Promise<void> } {
  let over = false;
  const clients = urls.map(async (url) => {
    while (!over) {
      try {
        const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
        await answer.arrayBuffer();
        if (answer.status === 200) tally.good += 1;
        else tally.bad.push(`kept: ${answer.status} ${url}`);
      } catch (error) {
        tally.bad.push(`kept: ${(error as Error).cause ?? error} ${url}`);
      }
      await sleep(20);
    }
  });
  return {
    stop: async () => {
      over = true;
      await Promise.all(clients);
    },
  };
}
