/** `summarizer`: long conversations become one summary through the account's model, else the built-in way is used. */
import t from 'tap';
import type { ModelProvider } from '../../supervisor/host/llm/configuration.ts';
import { eventually } from '../runner/eventually.ts';
import { soakTest } from '../runner/soak.ts';
import { openAi, refuse, startModelServer } from '../supervisor/host/model-server.ts';
import { startExamplesFixture } from './examples-fixture.ts';

const server = await startModelServer(t);
const model = { id: 'small', name: 'Small', contextWindow: 32_000, price: undefined };
const main = { name: 'main', kind: 'openai', baseUrl: server.url, apiKey: 'sk-1', structuredOutputs: true } as const;
const models: ModelProvider[] = [
  { ...main, models: [{ ...model, id: 'big' }, model] },
  { ...main, name: 'current', maxTokensField: 'max_completion_tokens', models: [model] },
];
const service = await startExamplesFixture(t, { models });
const { installationId } = await service.publish('summarizer', { model: 'main/small' });

const createMessage = (text: string, role = 'user') => ({
  id: text.slice(0, 20),
  role,
  text,
  at: '2030-01-01T00:00:00.000Z',
});
const compact = async (messages: object[], focus: string | null = null, at = service) => {
  const path = `/sessions/${await at.session()}/compaction`;
  return eventually(async () => {
    const { body } = await at.call('POST', path, { messages, focus });
    return /is not running/.test(body.notice) ? null : body;
  });
};

t.test('asks the model of the setting once, with what was said and what matters', async (t) => {
  server.answers = [openAi('- bread ', 'is baked')];
  const summary = await compact(
    [createMessage('Bake!'), createMessage('Done.', 'assistant'), createMessage('a veto', 'notice')],
    'bread',
  );
  t.match(summary, { action: 'continue', summary: '- bread is baked', source: 'plugin', notice: null });
  t.equal(server.asked.length, 1);
  const [{ body } = { body: {} }] = server.asked;
  t.equal(body.model, 'small');
  const words = JSON.stringify(body.messages);
  t.match(words, /Keep everything about: bread/);
  t.match(words, /user: Bake!\\nassistant: Done\./);
  t.notMatch(words, /a veto/);
});

t.test('reads a long conversation part by part, and carries the summary along', async (t) => {
  server.asked.length = 0;
  server.answers = [openAi('one'), openAi('two'), openAi('three')];
  const summary = await compact([
    createMessage(`begin ${'x'.repeat(70_000)}`),
    createMessage(`${'y'.repeat(50_000)} end`),
  ]);
  t.match(summary, { summary: 'three', source: 'plugin' });
  const parts = server.asked.map(({ body }) => JSON.stringify(body.messages.at(-1)));
  t.match(parts[0], /<summary><\/summary>.*begin/);
  t.match(parts[1], /<summary>one<\/summary>/);
  t.match(parts[2], /<summary>two<\/summary>.* end/);
});

t.test('leaves it to the built-in summarizer when the model refuses or says nothing', async (t) => {
  server.answers = [openAi('  ')];
  t.match(await compact([createMessage('hello')]), { source: 'builtin', summary: null, notice: /blank summary/ });
  server.answers = [refuse(400, 'no credit')];
  t.match(await compact([createMessage('hello')]), { source: 'builtin', notice: /Summarizer failed/ });
  const { rows } = await service.pool.query("SELECT text FROM session_messages WHERE role = 'notice'");
  t.match(rows.at(-1).text, /No plugin summarized the conversation: Summarizer failed/);
  await service.configure(installationId, { model: 'main/gone' });
  t.match(await compact([createMessage('hello')]), { source: 'builtin' });
});

t.test('works with a model that refuses max_tokens', async (t) => {
  await service.configure(installationId, { model: 'current/small' });
  server.answers = [
    (response, { body }) =>
      'max_tokens' in body ? refuse(400, "Unsupported parameter: 'max_tokens'.")(response) : openAi('short')(response),
  ];
  t.match(await compact([createMessage('hello')]), { source: 'plugin', summary: 'short' });
  t.equal(server.asked.at(-1)?.body.max_completion_tokens, 2_000);
});

soakTest(t, 'and where no model is configured', async (t) => {
  const bare = await startExamplesFixture(t);
  await bare.publish('summarizer');
  t.match(await compact([createMessage('hello')], null, bare), { source: 'builtin', summary: null, notice: /failed/ });
  const line = await eventually(async () => {
    await bare.supervisor.logs.flush();
    const { rows } = await bare.pool.query("SELECT message FROM plugin_logs WHERE message LIKE '%MODELS_FILE%'");
    return rows[0];
  });
  t.ok(line, 'its log says what to set');
});
