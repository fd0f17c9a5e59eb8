/**
 * A runtime without a framework, over turns. Its arguments make it do one thing wrong: the check of runtimes must find each.
 * `streamed` makes it stream, and `repeats` lets it repeat a message by itself that a required plugin could not judge.
 */
import type { Prompt, Session, Turn, TurnOutput } from '../../sdk/session/session.ts';
import { answerMessages, type Exchange, isStreamed, model, readOptions, SYSTEM } from './runtime-protocol.ts';

const { BULKHEAD_URL = '', BULKHEAD_TOKEN = '', BULKHEAD_RUNTIME = '', REST_URL = '' } = process.env;
const has = (fault: string): boolean => process.argv.includes(fault);
const ROUNDS_MAX = 8;

interface Call {
  readonly id: string;
  readonly function: { readonly name: string; readonly arguments: string };
}
interface Answer {
  readonly text: string;
  readonly calls: readonly Call[];
}
type ModelMessage = Readonly<Record<string, unknown>>;

let isFirst = true;

async function answer(given: Exchange): Promise<void> {
  const exchange = has('forgets-signals') ? { ...given, signal: new AbortController().signal } : given;
  const { session, told, signal } = exchange;
  if (has('dies-on-stop')) signal.addEventListener('abort', () => process.exit(1));
  if (has('fails-once') && isFirst) {
    isFirst = false;
    if (has('while-the-judge-restarts')) await restartJudge(session);
    throw new Error('Something failed.');
  }
  const { messageId, compactAfter } = readOptions(exchange);
  const { id, from, text, trigger } = told;
  if (has('refuses-half-pairs')) requireWellFormed(text);
  const isJudged = trigger === 'schedule';
  const sent = has('sends-half-pairs') ? text : toStorable(text);
  const opening = {
    id: has('forgets-ids') ? crypto.randomUUID() : (messageId ?? id),
    from,
    trigger,
    systemPrompt: SYSTEM,
  };
  const turn = await session.openTurn(isJudged ? opening : { ...opening, text: sent }, { signal });
  if (turn.record?.action === 'cancel') throw new Error(turn.record.reason ?? '');
  const steps: ModelMessage[] = [];
  let last: string | undefined;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const prompt = has('reads-prompts-once')
      ? await readPromptOnce(told.session, turn.id)
      : await turn.prompt({ ...(compactAfter === undefined ? {} : { compactAfter }), signal });
    if (prompt.action === 'cancel') throw new Error(prompt.reason ?? '');
    const { text: said, calls } = await askModel(exchange, turn, prompt, steps);
    if (has('ends-with-the-text')) last = said;
    if (calls.length === 0) break;
    steps.push({ role: 'assistant', content: said === '' ? null : said, tool_calls: calls });
    for (const call of calls) steps.push(await runCall(exchange, turn, call, round));
  }
  await turn.end(last, { signal });
}

/** Some languages have JSON parsers that refuse half a surrogate pair. */
function requireWellFormed(text: string): void {
  if (!text.isWellFormed()) throw new Error('lone leading surrogate in hex escape');
}

async function readPromptOnce(sessionId: string, turnId: string): Promise<Prompt> {
  const headers = { authorization: `Bearer ${BULKHEAD_TOKEN}`, 'bulkhead-runtime': BULKHEAD_RUNTIME };
  const path = `/sessions/${sessionId}/turns/${turnId}/prompt?compactAfter=6`;
  const response = await fetch(BULKHEAD_URL + path, { headers });
  if (!response.ok) throw new Error(`The prompt: ${response.status}`);
  return (await response.json()) as Prompt;
}

/** Restarts the plugin of the check that judges messages, and waits until another process answers for it. */
async function restartJudge(session: Session): Promise<void> {
  const headers = { authorization: `Bearer ${BULKHEAD_TOKEN}` };
  const response = await fetch(`${REST_URL}/installations`, { headers });
  const { items } = (await response.json()) as { items: { id: string; slug: string }[] };
  const judge = items.find(({ slug }) => slug.endsWith('-judge'));
  const readProcess = async () => JSON.stringify(await session.callTool(`${judge?.slug}__mark`, { mark: 'test' }));
  const before = await readProcess();
  await fetch(`${REST_URL}/installations/${judge?.id}/restart`, { method: 'POST', headers });
  while ((await readProcess()) === before);
}

/** Models may number the calls of each answer from zero. */
async function runCall({ signal }: Exchange, turn: Turn, call: Call, round: number): Promise<ModelMessage> {
  const { name, arguments: text } = call.function;
  const id = `${round}-${call.id}`;
  if (has('runs-tools-twice')) await turn.call(`${id}-again`, name, JSON.parse(text), { signal });
  const { content } = await turn.call(id, name, JSON.parse(text), { signal }).catch((error: Error) => {
    signal.throwIfAborted();
    return { content: [{ type: 'text' as const, text: error.message }] };
  });
  return { role: 'tool', tool_call_id: call.id, content: JSON.stringify(content) };
}

/** Asks the model, and shows what may be shown of its text. */
async function askModel(
  { told, signal, show }: Exchange,
  turn: Turn,
  { systemPrompt, messages, tools, outbound }: Prompt,
  steps: readonly ModelMessage[],
): Promise<Answer> {
  const history = has('sends-raw-messages')
    ? [{ role: 'user', content: told.text }]
    : messages
        .filter(({ role }) => role !== 'tool')
        .map(({ role, text }) => ({ role: role === 'user' || role === 'assistant' ? role : 'system', content: text }));
  const body = {
    model: model.name,
    stream: isStreamed,
    messages: [{ role: 'system', content: systemPrompt }, ...history, ...steps],
    tools: tools.map(({ name, description, parameters }) => ({
      type: 'function',
      function: { name, description, parameters },
    })),
  };
  const response = await fetch(`${model.url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Error(`The model answered ${response.status}.`);
  const id = crypto.randomUUID();
  const isFree = outbound === 'none' && isStreamed;
  let text = '';
  let calls: readonly Call[] = [];
  try {
    for await (const piece of isStreamed ? readStream(response) : readWhole(response)) {
      text += piece.text;
      calls = [...calls, ...piece.calls];
      if (isFree || has('shows-early')) show(piece.text);
    }
  } catch (error) {
    if (isFree && text !== '') await turn.output(toStorable(text), { id, isShown: true });
    throw error;
  }
  const sendsOutputs = !has('forgets-outputs') && !has('ends-with-the-text');
  if (text === '' || !sendsOutputs) {
    if (!isFree) show(text);
    return { text, calls };
  }
  const output: TurnOutput = await turn.output(toStorable(text), { id, isShown: isFree, signal });
  if (output.action === 'cancel') throw new Error(output.reason ?? '');
  if (!isFree && !has('shows-early')) show(has('shows-unpatched') ? text : output.show);
  return { text, calls };
}

async function* readWhole(response: Response): AsyncGenerator<Answer> {
  const { choices } = (await response.json()) as {
    choices: { message: { content: string | null; tool_calls?: Call[] } }[];
  };
  const message = choices[0]?.message;
  yield { text: message?.content ?? '', calls: message?.tool_calls ?? [] };
}

async function* readStream(response: Response): AsyncGenerator<Answer> {
  let buffered = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? new ReadableStream<Uint8Array>()) {
    buffered += decoder.decode(chunk, { stream: !has('decodes-each-chunk') });
    const events = buffered.split('\n\n');
    buffered = events.pop() ?? '';
    for (const event of events) {
      if (event === 'data: [DONE]') return;
      const delta = JSON.parse(event.slice('data: '.length)).choices[0]?.delta ?? {};
      const text: string = delta.content ?? '';
      if (has('refuses-half-pairs')) requireWellFormed(text);
      yield { text: has('replaces-half-pairs') ? text.toWellFormed() : text, calls: delta.tool_calls ?? [] };
    }
  }
  throw new Error('The connection to the model broke.');
}

const toStorable = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');

const repeat = (exchange: Exchange): Promise<void> => answer(exchange).catch(() => answer(exchange));

await answerMessages(has('repeats') ? repeat : answer);
