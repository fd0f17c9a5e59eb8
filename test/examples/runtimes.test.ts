/**
 * The examples of agent runtimes, as the processes they are, with the real frameworks: the same plugin changes the system
 * prompt, stops a message, answers a tool call and summarizes in each.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { amount } from '../runner/soak.ts';
import { type Asked, startModelServer } from '../supervisor/host/model-server.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';

const fixture = withStartedPlugins(await startSupervisorFixture(t));
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
await fixture.install({
  slug: 'house',
  code: `
    middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' Answer in one line.';
    middleware.inboundMessage = (ctx) => {
      if (/secret/.test(ctx.message.text)) ctx.cancel('we keep the recipe');
      return { message: { text: ctx.message.text.replace('loafs', 'loaves') } };
    };
    middleware.outboundMessage = (ctx) => ({ message: { text: ctx.message.text + ' Bye.' } });
    compaction.summarize = (ctx) => 'A talk of ' + ctx.messages.length + ' messages about bread.';
    tools.add = { description: 'Adds', parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } },
      required: ['a', 'b'] }, handler: ({ a, b }) => String(a + b) };
  `,
});

const completion = (message: object, finish: string) =>
  JSON.stringify({
    id: randomUUID(),
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
const callAdd = {
  content: null,
  tool_calls: [{ id: 'call1', type: 'function', function: { name: 'house__add', arguments: '{"a":2,"b":3}' } }],
};

/** Calls the tool when it is asked to add, and says what the tool said. */
function answer(response: ServerResponse, { body }: Asked): void {
  const last = body.messages.at(-1);
  const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
  const wantsSum = last.role === 'user' && /add/.test(text(last.content));
  response.writeHead(200, { 'content-type': 'application/json' });
  if (wantsSum) response.end(completion(callAdd, 'tool_calls'));
  else response.end(completion({ content: last.role === 'tool' ? `It is ${text(last.content)}.` : 'Yes.' }, 'stop'));
}

const TURNS = ['How many loafs?', 'the secret recipe', 'add 2 and 3', 'one', 'two', 'three'];

async function runExample(name: string, modelUrl: string, account = 'ann', turns = TURNS): Promise<string[]> {
  const script = fileURLToPath(new URL(`../../examples/runtimes/${name}.ts`, import.meta.url));
  const env = {
    ...bareEnvironment,
    HOME: '/tmp',
    MODEL_URL: modelUrl,
    BULKHEAD_URL: url,
    BULKHEAD_TOKEN: await fixture.issuer.issue(account),
  };
  const child = spawn(process.execPath, [script], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(`${turns.join('\n')}\n`);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk;
  });
  await new Promise((resolve) => child.once('close', resolve));
  return output.trimEnd().split('\n');
}

const examples = ['ai-sdk', 'langchain', 'openai-agents'];
/** `test/sdk/adapters.test.ts` tests the adapters with each framework, so one example suffices in a quick run. */
const someExamples = amount({ quick: ['ai-sdk'], soak: examples });

for (const name of someExamples) {
  t.test(name, async (t) => {
    const model = await startModelServer(t);
    model.answers = [answer];
    const lines = await runExample(name, model.url);
    t.same(lines.slice(0, 3), ['Yes. Bye.', '(house cancelled the operation: we keep the recipe)', 'It is 5. Bye.']);
    t.equal(lines.length, TURNS.length);
    const [first] = model.asked;
    const messages = JSON.stringify(first?.body.messages);
    t.match(messages, /You help in a bakery\. Answer in one line\./, 'the system prompt is the plugin’s');
    t.match(messages, /How many loaves\?/, 'the message is as the plugin changed it');
    t.ok(first?.body.tools.some((tool: { function: { name: string } }) => tool.function.name === 'house__add'));
    t.notMatch(JSON.stringify(model.asked), /secret recipe/, 'a vetoed message never reaches the model');
    const last = JSON.stringify(model.asked.at(-1)?.body.messages);
    t.match(last, /A talk of \d+ messages about bread/, 'a long conversation is summarized by the plugin');
    t.notMatch(last, /loaves/, 'and what was summarized is gone');
  });
}

const BROKEN = `
  middleware.systemPrompt = () => { throw new Error('x'); };
  middleware.inboundMessage = (ctx) => { if (ctx.message.text === 'bad') throw new Error('x'); return {}; };
  compaction.summarize = () => { throw new Error('x'); };`;
await fixture.install({ slug: 'gate', account: 'strict', code: BROKEN, required: true });

for (const name of amount({ quick: [], soak: examples }))
  t.test(`${name}: no model is asked where a required plugin did not see the system prompt`, async (t) => {
    const model = await startModelServer(t);
    model.answers = [answer];
    const lines = await runExample(name, model.url, 'strict', ['How many loaves?']);
    t.match(lines, [/^\(“gate” failed with an error, and this account requires it\./]);
    t.same(model.asked, []);
  });

for (const name of amount({ quick: [], soak: examples }))
  t.test(`${name}: a message that a required plugin could not judge is judged when it is sent again`, async (t) => {
    const account = `moody-${name}`;
    const code = `let calls = 0;
      middleware.inboundMessage = () => { calls += 1; if (calls === 1) throw new Error('x'); };
      compaction.summarize = () => { throw new Error('x'); };`;
    await fixture.install({ slug: account, account, code, required: true });
    const model = await startModelServer(t);
    model.answers = [answer];
    const lines = await runExample(name, model.url, account, ['one', 'one', 'two', 'three', 'four']);
    const stopped = /failed with an error, and this account requires it/;
    t.match(lines, [stopped, 'Yes.', 'Yes.', 'Yes.', stopped], 'the last one needs a summary');
  });
