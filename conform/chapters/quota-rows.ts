/** Contract: default quotas, with plugins of their own that use theirs up. */
import type { Answer } from '../account.ts';
import { requireBodyLimit } from '../announced-body.ts';
import { ensure, expect, Skipped } from '../expect.ts';
import { packageOf } from '../packages.ts';
import { type Chapter, lateRow, row, unchecked } from '../row.ts';
import type { Run } from '../run.ts';

const CALLS_IN_FLIGHT = 16;
const CALLS_WAITING = 64;
const CALLS_MORE = 6;
/**
 * How long each call takes, seconds. A busy deployment receives the calls so slowly that none is refused because the first have
 * ended before the last arrive: then longer ones are made.
 */
const CALL_SECONDS = [1, 4];
/** 9,000 calls are over the quota of a minute only if they take no longer, milliseconds. */
const CALLS_WITHIN_MS = 20_000;

const GREEDY_CODE = `
const parameters = { type: 'object', properties: { count: { type: 'number' } } };
tools.calls = {
  description: 'Makes host calls until one is refused',
  parameters,
  handler: async ({ count }: { count: number }) => {
    const end = Date.now() + ${CALLS_WITHIN_MS};
    let made = 0;
    let refusal: string | null = null;
    const repeat = async () => {
      while (made < count && refusal === null && Date.now() < end) {
        made += 1;
        await host.storage.get('x').catch((error) => {
          refusal = error.message;
        });
      }
    };
    await Promise.all(Array.from({ length: 50 }, repeat));
    return { made, refusal };
  },
};
tools.wait = {
  description: 'Takes its time',
  parameters: { type: 'object', properties: { seconds: { type: 'number' } } },
  handler: async ({ seconds }: { seconds: number }) => {
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    return 'waited';
  },
};
`;
const LEAKING_CODE = `
tools.leak = {
  description: 'Takes all memory',
  parameters: { type: 'object' },
  handler: () => {
    const all: number[][] = [];
    for (;;) all.push(new Array(100_000).fill(all.length));
  },
};
tools.fine = { description: 'Answers', parameters: { type: 'object' }, handler: () => 'fine' };
`;

/** A plugin whose tools use up its quotas. Each row has one: they would wait for each other. */
async function installGreedy(run: Run, name: string, code = GREEDY_CODE) {
  const plugin = await run.install(name, packageOf(code, { more: 'capabilities: [host.storage]' }));
  const session = await run.newSession(name);
  const call = (tool: string, args: object = {}) =>
    run.own.session(
      'POST',
      `/sessions/${session}/tools/${plugin.slug}__${tool}`,
      { arguments: args },
      { isFinal: true },
    );
  const start = async (tool: string, args: object = {}) =>
    run.until(`the start of ${name}`, async () => {
      const answer = await call(tool, args);
      return answer.status === 200 && answer;
    });
  return { ...plugin, call, start };
}

const jsonHeaders = ({ own }: Run) => ({ authorization: `Bearer ${own.token}`, 'content-type': 'application/json' });

export const quotas: Chapter = {
  title: 'Contract: default quotas',
  rows: [
    row('Hook and tool bodies: 1 MiB.', async (run) => {
      expect(await run.hook('outboundMessage', { message: { id: 'm', text: 'x'.repeat(1_100_000) }, target: 't' }), {
        status: 413,
        body: { code: 'too_large' },
      });
      const url = `${run.own.sessionsUrl}/sessions/${await run.session()}/hooks/outboundMessage`;
      await requireBodyLimit(url, 1024 * 1024, jsonHeaders(run));
    }),
    row('Other session bodies: 4 MiB.', async (run) => {
      const url = `${run.own.sessionsUrl}/sessions/${await run.session()}/messages`;
      await requireBodyLimit(url, 4 * 1024 * 1024, jsonHeaders(run));
    }),
    row('REST reads and writes are limited per account and minute, and answers say how many are left.', async (run) => {
      const { headers } = await run.own.get('/me');
      ensure(
        Number(headers.get('ratelimit-limit')) > 0 && headers.get('ratelimit-remaining') !== null,
        'no ratelimit headers',
      );
    }),
    row('Log message: 8 KiB.', async (run) => {
      const { watch } = await run.kit();
      await run.tool('log', { mark: 'eight' });
      const { message, truncated } = await watch.find('a long message', (line) =>
        line.message.startsWith('wide eight'),
      );
      const bytes = Buffer.byteLength(message);
      ensure(bytes > 8_000 && bytes <= 8_192 && truncated, `${bytes} bytes, truncated ${truncated}`);
    }),
    unchecked(
      'Log 6,000 lines a minute; over it one “N lines dropped” line.',
      'the line comes when the minute is over',
    ),
    lateRow('Host calls 6,000 a minute.', async (run) => {
      const greedy = await installGreedy(run, 'calls');
      const { body } = await greedy.start('calls', { count: 9_000 });
      const { made, refusal } = JSON.parse(body.content[0].text);
      // The quota refills meanwhile.
      if (made < 9_000 && refusal === null)
        throw new Skipped(`this deployment answers only ${made} host calls in ${CALLS_WITHIN_MS / 1000} s just now`);
      ensure(made > 6_000 && refusal !== null, `${made} calls were made, and ${refusal}`);
      expect(refusal, /6000 host calls a minute/, 'the refusal');
    }),
    lateRow('16 calls in flight and 64 waiting per child.', async (run) => {
      const greedy = await installGreedy(run, 'waiting');
      await greedy.start('wait', { seconds: 0 });
      const count = CALLS_IN_FLIGHT + CALLS_WAITING + CALLS_MORE;
      let refused: readonly Answer[] = [];
      for (const seconds of CALL_SECONDS) {
        const started = performance.now();
        const answers = await Promise.all(Array.from({ length: count }, () => greedy.call('wait', { seconds })));
        const rounds = (performance.now() - started) / 1000 / seconds;
        ensure(rounds > CALLS_WAITING / CALLS_IN_FLIGHT, `${count} calls of ${seconds} s took ${rounds * seconds} s`);
        refused = answers.filter(({ status }) => status !== 200);
        if (refused.length > 0) break;
      }
      expect(refused[0], { status: 429, body: { code: 'rate_limited', detail: /too many calls wait/ } }, 'a refusal');
      ensure(Number(refused[0]?.headers.get('retry-after')) > 0, 'a refusal has no Retry-After');
      ensure(refused.length <= CALLS_MORE, `${refused.length} of ${count} calls were refused`);
    }),
    lateRow('Heap 128 MB, resident 256 MB: a plugin that takes more is ended, and started again.', async (run) => {
      const greedy = await installGreedy(run, 'leaking', LEAKING_CODE);
      await greedy.start('fine');
      expect(await greedy.call('leak'), { body: { isError: true, content: [{ text: /memory limit/ }] } });
      await greedy.start('fine');
      const { body } = await run.own.get(`/installations/${greedy.installationId}`);
      expect(body.runtime, { lastExit: { reason: /memory limit/ } });
    }),
    row('A ledger of bytes kept: GET /me/usage.', async ({ own }) =>
      ensure(JSON.stringify((await own.get('/me/usage')).body).includes('transcripts'), 'no transcripts in the ledger'),
    ),
    unchecked('Frame 4 MiB.', 'every call has a smaller limit of its own, so that no honest child sends one'),
    unchecked(
      'Webhooks 500 a second per routing id.',
      'needs more than 1,500 requests a second, which would load others',
    ),
    unchecked('The installation cap answers its own code.', 'needs a hundred installations'),
  ],
};
