/**
 * API and supervisor are replaced under load: nobody is refused, nobody gets anything but a good answer. Where the
 * supervisor is killed instead, whoever asks again is answered.
 */
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { killProcess } from '../runner/harness.ts';
import { amount } from '../runner/soak.ts';
import { startServiceOnTestDatabase } from './service-fixture.ts';

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
  t.same(tally.bad, []);
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
