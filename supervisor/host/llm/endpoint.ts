/** Asks one configured model: streamed inside, one answer outside. Loaded at the first question, for its size. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  APICallError,
  type JSONSchema7,
  type LanguageModel,
  type ModelMessage,
  type Output,
  RetryError,
  streamText,
} from 'ai';
import { TEXT_MAX_CHARS } from '../../../sdk/contract/payloads.ts';
import { HostError } from '../host-call.ts';
import type { ModelProvider } from './configuration.ts';
import type { CompletionRequest, ModelAnswer } from './model.ts';

/** After 2, 4 and 8 s, or when `Retry-After` says; only before the first word, and only for 408, 409, 429 and 5xx. */
const RETRIES = 3;

// It would print what it thinks of our requests.
globalThis.AI_SDK_LOG_WARNINGS = false;

export interface Question {
  readonly provider: ModelProvider;
  /** As the endpoint calls it. */
  readonly modelId: string;
  readonly request: CompletionRequest;
  readonly signal: AbortSignal;
  readonly fetch: typeof globalThis.fetch;
  /** Told what was used by an answer that broke off, guessed where the endpoint did not come to say it. */
  onBrokenOff(usage: ModelAnswer['usage']): void;
}

/**
 * Waits for the whole answer.
 *
 * @throws HostError with nothing of the endpoint's own words in it: those may hold parts of the operator's key
 */
export async function askEndpoint(question: Question): Promise<ModelAnswer> {
  const { provider, request, signal } = question;
  const { instructions, messages } = split(request);
  if (messages.length === 0) throw new HostError('messages needs one of the user or the assistant');
  const cut = new AbortController();
  const heard = { characters: 0 };
  const { stream } = streamText({
    model: modelOf(question),
    messages,
    ...(instructions === '' ? {} : { instructions }),
    ...(request.maxTokens === undefined ? {} : { maxOutputTokens: request.maxTokens }),
    ...(request.temperature === undefined ? {} : { temperature: request.temperature }),
    ...(request.schema === undefined ? {} : { output: jsonOf(request.schema as JSONSchema7) }),
    // The answer is checked here; strict mode would refuse most schemas beforehand.
    providerOptions: { openaiCompatible: { strictJsonSchema: false } },
    maxRetries: RETRIES,
    abortSignal: AbortSignal.any([signal, cut.signal]),
    onError: () => undefined,
  });
  try {
    return await collect(stream, provider.name, heard);
  } catch (error) {
    if (heard.characters > 0) question.onBrokenOff(guess(request, heard.characters));
    throw error instanceof HostError ? error : explain(provider.name, error);
  } finally {
    cut.abort();
  }
}

type Parts = ReturnType<typeof streamText>['stream'];

async function collect(stream: Parts, name: string, heard: { characters: number }): Promise<ModelAnswer> {
  let text = '';
  for await (const part of stream) {
    if (part.type === 'text-delta') text += part.text;
    heard.characters = text.length;
    if (text.length > TEXT_MAX_CHARS)
      throw new HostError(`the answer of ${name} is longer than ${TEXT_MAX_CHARS} characters`);
    if (part.type === 'error') throw part.error;
    if (part.type === 'abort') throw new HostError('the call was over before the answer came');
    if (part.type !== 'finish') continue;
    if (part.rawFinishReason === undefined) break;
    const { inputTokens, outputTokens } = part.totalUsage;
    return { text, usage: { inputTokens: count(inputTokens), outputTokens: count(outputTokens) } };
  }
  throw new HostError(`${name} broke off before its answer was complete`);
}

/** About what a token is; else an answer that is broken off on purpose would cost nothing. */
const CHARACTERS_PER_TOKEN = 4;
function guess({ system = '', messages }: CompletionRequest, heard: number): ModelAnswer['usage'] {
  const asked = messages.reduce((sum, { text }) => sum + text.length, system.length);
  const tokens = (characters: number) => Math.ceil(characters / CHARACTERS_PER_TOKEN);
  return { inputTokens: tokens(asked), outputTokens: tokens(heard) };
}

/** What an endpoint counts is its own word: never less than nothing, never a fraction. */
const count = (tokens: number | undefined): number => Math.max(0, Math.trunc(tokens ?? 0) || 0);

function modelOf({ provider, modelId, fetch }: Question): LanguageModel {
  const { name, baseUrl, apiKey, kind, structuredOutputs } = provider;
  const baseURL = baseUrl.replace(/\/+$/, '');
  // Without a key of its own the library would look for one in the environment.
  if (kind === 'anthropic') return createAnthropic({ baseURL, apiKey: apiKey ?? 'none', fetch })(modelId);
  return createOpenAICompatible({
    ...{ name, baseURL, fetch, includeUsage: true, supportsStructuredOutputs: structuredOutputs },
    ...(apiKey === undefined ? {} : { apiKey }),
  })(modelId);
}

/** Anthropic takes system texts before the conversation only; so that a plugin need not know, all go there. */
function split(request: CompletionRequest): { instructions: string; messages: ModelMessage[] } {
  const system = [request.system ?? '', ...request.messages.filter(isSystem).map(({ text }) => text)];
  const messages = request.messages.flatMap(({ role, text }): ModelMessage[] =>
    role === 'system' ? [] : [{ role, content: text }],
  );
  return { instructions: system.filter((text) => text !== '').join('\n\n'), messages };
}
const isSystem = ({ role }: { role: string }): boolean => role === 'system';

/** Asks for JSON, and leaves its reading to us: the library would read all of it anew at every word. */
const jsonOf = (schema: JSONSchema7): Output.Output<string, never, never> => ({
  name: 'json',
  responseFormat: Promise.resolve({ type: 'json', schema }),
  parseCompleteOutput: async ({ text }) => text,
  parsePartialOutput: async () => undefined,
  createElementStreamTransform: () => undefined,
});

function explain(name: string, error: unknown): HostError {
  const last = RetryError.isInstance(error) ? error.lastError : error;
  const status = APICallError.isInstance(last) ? last.statusCode : undefined;
  if (status === 401 || status === 403) return new HostError(`${name} refuses the operator’s key (${status})`);
  if (status === 404) return new HostError(`${name} does not know this model or address (404)`);
  if (status === 429) return new HostError(`${name} takes no more requests for now (429); try again later`);
  if (status !== undefined && status >= 500)
    return new HostError(`${name} is out of order (${status}); try again later`);
  if (status !== undefined && status >= 400) return new HostError(`${name} does not take this request (${status})`);
  if (status === undefined && APICallError.isInstance(last)) return new HostError(`${name} cannot be reached`);
  return new HostError(`${name} failed while it answered`);
}
