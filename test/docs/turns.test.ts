/** The page about turns: what it says is run, with curl and with Python, against a session API with a plugin. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';

const run = promisify(execFile);
const page = readFileSync(fileURLToPath(new URL('../../docs/turns.md', import.meta.url)), 'utf8');
const blocksOf = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code);

const fixture = await startSupervisorFixture(t);
await fixture.app.listen({ port: 0, host: '127.0.0.1' });
await fixture.install({
  slug: 'sums',
  code: `
    middleware.inboundMessage = () => {};
    middleware.outboundMessage = (ctx) => ({ message: { text: ctx.message.text + ' Bye.' } });
    tools.add = { description: 'Adds', parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
      handler: ({ a, b }) => String(a + b) };`,
});
const env = {
  PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`,
  API: `http://127.0.0.1:${(fixture.app.server.address() as AddressInfo).port}`,
  TOKEN: await fixture.issuer.issue('ann'),
};

async function readTranscripts(): Promise<Record<string, string[]>> {
  const { rows } = await fixture.pool.query<{ session: string; lines: string[] }>(
    `SELECT session_id AS session, array_agg(role || ': ' || text ORDER BY position) AS lines FROM session_messages GROUP BY 1 ORDER BY 1`,
  );
  return Object.fromEntries(rows.map(({ session, lines }) => [session, lines]));
}

const hasProgram = (name: string): Promise<boolean> =>
  run(name, ['--version']).then(
    () => true,
    () => false,
  );

t.test('the requests of curl take a turn', { skip: (await hasProgram('curl')) ? false : 'no curl' }, async (t) => {
  const { stdout } = await run('sh', ['-eu', '-c', blocksOf('sh').join('\n')], { env });
  t.match(stdout, /"systemPrompt":"You are a baker\."/);
  t.match(stdout, /"content":\[\{"type":"text","text":"42"\}\]/);
  t.match(stdout, /Let me count\. Bye\.\nended\nopen\n220\n220 degrees\n$/);
  t.same(Object.values(await readTranscripts()), [
    ['user: How many loaves are 12 and 30?', 'tool: 42', 'assistant: Let me count. Bye.', 'assistant: 42 loaves. Bye.'],
    ['user: Heat the oven', 'tool: 220 degrees'],
  ]);
});

t.test(
  'the program in Python takes a turn',
  { skip: (await hasProgram('python3')) ? false : 'no Python' },
  async (t) => {
    const before = new Set(Object.keys(await readTranscripts()));
    const [program = ''] = blocksOf('python');
    t.equal((await run('python3', ['-c', program], { env })).stdout, 'It is 42. Bye.\n');
    const added = Object.entries(await readTranscripts()).filter(([session]) => !before.has(session));
    t.same(
      added.map(([, lines]) => lines),
      [['user: How many loaves are 12 and 30?', 'tool: 42', 'assistant: It is 42. Bye.']],
    );
  },
);
