/** A runtime on the adapter for the Vercel AI SDK. Streams with the argument `streamed`. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, streamText, wrapLanguageModel } from 'ai';
import { bulkhead, bulkheadTools } from '../../sdk/adapters/ai-sdk.ts';
import {
  answerMessages,
  type Exchange,
  isStreamed,
  model as modelSettings,
  readOptions,
  SYSTEM,
} from './runtime-protocol.ts';

const STEPS_MAX = 5;

async function answer(exchange: Exchange): Promise<void> {
  const { session, messages, signal, show } = exchange;
  const model = createOpenAICompatible({ name: 'local', baseURL: modelSettings.url })(modelSettings.name);
  const settings = {
    model: wrapLanguageModel({ model, middleware: bulkhead(session, readOptions(exchange)) }),
    tools: await bulkheadTools(session),
    stopWhen: stepCountIs(STEPS_MAX),
    system: SYSTEM,
    messages: [...messages],
    abortSignal: signal,
    maxRetries: 0,
  };
  if (!isStreamed) {
    for (const { text } of (await generateText(settings)).steps) show(text);
    return;
  }
  for await (const part of streamText({ ...settings, onError: () => undefined }).fullStream) {
    if (part.type === 'text-delta') show(part.text);
    if (part.type === 'error') throw part.error;
    if (part.type === 'abort') throw signal.reason;
  }
}

await answerMessages(answer);
