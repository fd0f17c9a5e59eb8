/** The vendors of the bench: many connections that post, as fast as they are answered or at a steady rate. */
import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Load, LoadResult } from '../webhook-intake.ts';

process.on('message', async (load: Load) => process.send?.(await run(load)));

async function run(load: Load): Promise<LoadResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: load.connections });
  const body = randomBytes(load.bodyBytes);
  const result = { accepted: 0, refused: 0, ms: [] as number[] };
  const post = async () => {
    const started = performance.now();
    const status = await send(agent, load, body);
    result.ms.push(performance.now() - started);
    if (status === 200) result.accepted += 1;
    else result.refused += 1;
  };
  const until = performance.now() + load.seconds * 1_000;
  if (load.rate === null) {
    const connection = async () => {
      while (performance.now() < until) await post();
    };
    await Promise.all(Array.from({ length: load.connections }, connection));
  } else await steadily(load.rate, until, post);
  agent.destroy();
  return result;
}

/** Starts requests on time, whether or not the last ones are answered. */
async function steadily(rate: number, until: number, post: () => Promise<void>): Promise<void> {
  const started = performance.now();
  const running: Promise<void>[] = [];
  while (performance.now() < until) {
    const due = ((performance.now() - started) / 1_000) * rate;
    while (running.length < due) running.push(post());
    await sleep(1);
  }
  await Promise.all(running);
}

function send(agent: Agent, { port, path }: Load, body: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': body.byteLength };
    const sent = request({ host: '127.0.0.1', port, path, method: 'POST', agent, headers }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    });
    sent.on('error', reject).end(body);
  });
}
