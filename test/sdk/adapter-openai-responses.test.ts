/** LangChain's model of OpenAI's Responses API, whose answers have their items beside their content: the adapter lets no item pass that plugins changed or refused. */
import { createRequire } from 'node:module';
import { type AIMessage, type BaseMessage, HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { createAgent } from 'langchain';
import t from 'tap';
import { bulkhead } from '../../sdk/adapters/langchain.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { amount } from '../runner/soak.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';
import { createResponsesApi } from './scripted-models.ts';

/** The model of a CommonJS app, whose messages come from another copy of the framework than the adapter's. */
const { ChatOpenAI: RequiredChatOpenAI }: { ChatOpenAI: typeof ChatOpenAI } = createRequire(import.meta.url)(
  '@langchain/openai',
);

const fixture = withStartedPlugins(await startSupervisorFixture(t));
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });

await fixture.install({
  account: 'guarded',
  slug: 'guard',
  code: `middleware.outboundMessage = (ctx) => ({ message: { text: ctx.message.text.replace('loafs', 'loaves') } });`,
});
await fixture.install({
  account: 'refusing',
  slug: 'refuse',
  code: `middleware.toolCall = ({ call, cancel }) => {
    if (call.arguments.degrees > 250 || call.arguments.input?.includes('300')) cancel('too hot');
    if (call.arguments.degrees < 100) return { call: { arguments: { degrees: 100 } } };
  };`,
});

const open = async (account: string): Promise<Session> =>
  connect({ url, token: await fixture.issuer.issue(account) }).start({ agentId: 'a', strict: true });

interface Item {
  readonly type?: string;
  readonly id?: string;
  readonly call_id?: string;
  readonly arguments?: string;
}

const say = (number: number, text: string) => ({
  type: 'message',
  role: 'assistant',
  id: `msg_${number}`,
  content: [{ type: 'output_text', text, annotations: [] }],
});

/**
 * Runs a message in which the model thinks, calls the tool with these degrees (an array each answer), and then answers, and then
 * another message. Returns what the model was asked, what the app got, and the arguments with which the tool ran.
 */
async function bake(
  session: Session,
  answers: readonly (readonly number[])[],
  { isStreamed = false, isCustom = false, Chat = ChatOpenAI, ...options },
) {
  const api = createResponsesApi((number) => {
    const thinking = {
      type: 'reasoning',
      id: `rs_${number}`,
      summary: [{ type: 'summary_text', text: `Hm ${number}.` }],
    };
    const calls = (answers[number - 1] ?? []).map((degrees, index) => ({
      type: isCustom ? 'custom_tool_call' : 'function_call',
      id: `fc_${number}${index}`,
      call_id: `c${number}${index}`,
      name: 'oven',
      [isCustom ? 'input' : 'arguments']: JSON.stringify({ degrees }),
    }));
    return [thinking, ...(calls.length > 0 ? calls : [say(number, 'Done.')])];
  });
  const chat = new Chat({
    model: 'm',
    apiKey: 'none',
    useResponsesApi: true,
    configuration: { fetch: api.fetch as never },
    maxRetries: 0,
    ...options,
  });
  const heated: unknown[] = [];
  const oven = tool(
    async (args) => {
      heated.push(args);
      return 'warm';
    },
    {
      name: 'oven',
      description: 'Heats',
      schema: { type: 'object', properties: { degrees: { type: 'number' } } } as const,
    },
  );
  const agent = createAgent({ model: bulkhead(session, chat), tools: [oven] });
  let messages: BaseMessage[] = [];
  const got: string[] = [];
  for (const text of ['Bake', 'Again']) {
    const input = { messages: [...messages, new HumanMessage(text)] };
    if (!isStreamed) ({ messages } = await agent.invoke(input));
    else
      for await (const [mode, state] of await agent.stream(input, { streamMode: ['messages', 'values'] }))
        if (mode === 'values') ({ messages } = state as { messages: BaseMessage[] });
        else got.push(JSON.stringify(state));
  }
  return { asked: api.asked as Item[][], messages, got: got.join('\n'), heated };
}

/** Ids of the items of a type. */
const listIds = (items: readonly Item[] = [], type: string): string[] =>
  items.filter((item) => item.type === type).map(({ id, call_id }) => call_id ?? id ?? '');

for (const outputVersion of amount({ quick: ['v0'], soak: ['v0', 'v1'] })) {
  t.test(
    `${outputVersion}, streamed: neither the app nor the model gets calls in another form than plugins judged`,
    async (t) => {
      for (const [answers, Chat] of [
        [[[300]], ChatOpenAI],
        [[[300, 200]], ChatOpenAI],
        [[[200, 50]], ChatOpenAI],
        [[[300], [300, 200]], ChatOpenAI],
        [[[300]], RequiredChatOpenAI],
        [[[200, 50]], RequiredChatOpenAI],
      ] as const) {
        const options = { isStreamed: true, outputVersion, Chat };
        const { asked, got, heated } = await bake(await open('refusing'), answers, options);
        t.notMatch(got, /degrees\W{1,6}(300|50)\b/, `${JSON.stringify(answers)}: in the app's chunks`);
        t.same(
          heated,
          answers.flat().flatMap((one) => (one > 250 ? [] : [{ degrees: Math.max(one, 100) }])),
        );
        if (answers.length === 2) t.same(listIds(asked[2], 'reasoning').at(-1), 'rs_2');
        for (const request of asked) {
          const calls = listIds(request, 'function_call');
          t.same(calls.sort(), listIds(request, 'function_call_output').sort(), 'each call has a result');
          t.same(calls, [...new Set(calls)]);
          t.notMatch(JSON.stringify(request), /degrees\W{1,6}50\b/);
          t.notMatch(JSON.stringify(request), 'Hm 1.Hm 2.', 'the reasoning of two answers is not joined');
        }
      }
    },
  );

  t.test(`${outputVersion}, streamed: the app gets no input of a custom tool that plugins refused`, async (t) => {
    for (const answers of [[[300]], [[300, 200]], [[200]]]) {
      const options = { isStreamed: true, outputVersion, isCustom: true };
      const { got, messages, heated } = await bake(await open('refusing'), answers, options);
      t.notMatch(got + JSON.stringify(messages), /degrees\W{1,6}300\b/);
      const warm = answers.flat().filter((degrees) => degrees === 200);
      t.same(
        heated,
        warm.map((degrees) => ({ input: JSON.stringify({ degrees }) })),
      );
    }
  });

  t.test(
    `${outputVersion}, streamed: the provider's data about an answer comes once its calls are judged`,
    async (t) => {
      const { asked, messages } = await bake(await open('refusing'), [[200]], { isStreamed: true, outputVersion });
      t.match(messages[1]?.response_metadata, {
        status: 'completed',
        model_provider: 'openai',
        output: [{}, { id: 'fc_10' }],
      });
      t.same(listIds(asked[2], 'reasoning'), ['rs_1', 'rs_2']);
      for (const answers of [
        [200, 50],
        [300, 200],
      ]) {
        const changed = await bake(await open('refusing'), [answers], { isStreamed: true, outputVersion });
        t.match(changed.messages[1]?.response_metadata, { status: 'completed', model_name: 'm', output: undefined });
      }
      const refused = await bake(await open('refusing'), [[300]], { isStreamed: true, outputVersion });
      t.match(refused.messages[1]?.response_metadata, {
        status: 'completed',
        output: [{ id: 'rs_2' }, { id: 'msg_2' }],
      });
      t.match((refused.messages[1] as AIMessage).usage_metadata, { input_tokens: 20, output_tokens: 2 });
    },
  );

  for (const isStreamed of amount({ quick: [true], soak: [false, true] }))
    t.test(
      `${outputVersion}${isStreamed ? ', streamed' : ''}: the model gets reasoning that the app does not get`,
      async (t) => {
        const ask = async (account: string, degrees: number[]) =>
          bake(await open(account), [degrees], { isStreamed, outputVersion });
        for (const { asked, messages } of [await ask('guarded', [200]), await ask('refusing', [300])]) {
          const [reasoning, call, result] = (asked[1] ?? []).slice(1);
          t.match(reasoning, { type: 'reasoning', id: 'rs_1' });
          t.same(call?.id, undefined, 'an id would name an item that the model no longer gets');
          t.same([call?.call_id, result?.call_id], ['c10', 'c10']);
          if (!isStreamed) t.notMatch(JSON.stringify(messages), 'rs_1');
        }
        const { asked, messages } = await ask('guarded', [200]);
        t.same(listIds(asked[2], 'reasoning'), [], 'it ends with its turn');
        t.notMatch(JSON.stringify(messages), /rs_1|Hm/);
        const { asked: partly } = await ask('refusing', [300, 200]);
        t.same(listIds(partly[1], 'reasoning'), ['rs_1']);
      },
    );
}
