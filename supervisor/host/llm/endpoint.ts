/** Calls one configured model: streams its answer and returns it as a whole. Loaded on demand because of its size. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  APICallError,
  type FinishReason,
  type JSONSchema7,
  type LanguageModel,
  type ModelMessage,
  type Output,
  RetryError,
  streamText,
} from 'ai';
import { SECOND } from '../../../sdk/contract/limits.ts';
import { TEXT_MAX_CHARS } from '../../../sdk/contract/payloads.ts';
import { removeTrailingSlashes } from '../../../sdk/session/web-addresses.ts';
import { HostError } from '../host-call.ts';
import type { ModelProvider } from './configuration.ts';
import { type CompletionRequest, EndpointFault, type ModelAnswer } from './model.ts';

/**
 * Retries after 2, 4 and 8 s or `Retry-After`, only before the first part of the answer, for 408, 409, 429 and 5xx and for
 * connections that fail.
 */
const RETRIES = 3;
const RETRIED_STATUSES: readonly number[] = [408, 409, 429];
/** The library ignores a `Retry-After` that is not shorter. */
const RETRY_AFTER_MAX_MS = 60 * SECOND;

// Otherwise, the library prints warnings about requests.
globalThis.AI_SDK_LOG_WARNINGS = false;

const EVENT_STREAM = /^text\/event-stream\b/i;

interface Question {
  readonly provider: ModelProvider;
  /** The endpoint's name of the model. */
  readonly modelId: string;
  readonly request: CompletionRequest;
  readonly signal: AbortSignal;
  readonly fetch: typeof globalThis.fetch;
  /** Called with the usage of an answer that was interrupted or cut off, estimated if the endpoint did not report it. */
  onBrokenOff(usage: ModelAnswer['usage']): void;
}

/**
 * Waits for the complete answer.
 *
 * @throws HostError without the endpoint's own text, which may contain parts of the operator's key
 */
export async function askEndpoint(question: Question): Promise<ModelAnswer> {
  const { provider, request, signal } = question;
  const { instructions, messages } = splitSystemTexts(request);
  if (messages.length === 0) throw new HostError('messages needs one of the user or the assistant');
  const cut = new AbortController();
  const received = { characters: 0 };
  /** Whether the endpoint accepted the request and answered with something else, such as a page or one JSON text. */
  let isNoStream = false;
  /** Whether a request is on its way or has been accepted: the endpoint may charge for it. */
  let isAsked = false;
  const fetch: Question['fetch'] = async (input, init) => {
    isAsked = true;
    try {
      const response = await question.fetch(input, init);
      isAsked = response.ok;
      isNoStream = response.ok && !EVENT_STREAM.test(response.headers.get('content-type') ?? '');
      if (asksForLongWait(response)) {
        await response.body?.cancel();
        const fields = { message: '', url: '', requestBodyValues: {}, statusCode: response.status };
        throw new APICallError({ ...fields, isRetryable: false });
      }
      return response;
    } catch (error) {
      isAsked = signal.aborted;
      throw error;
    }
  };
  const { stream } = streamText({
    model: createModel({ ...question, fetch }),
    messages,
    ...(instructions === '' ? {} : { instructions }),
    ...(request.maxTokens === undefined ? {} : { maxOutputTokens: request.maxTokens }),
    ...(request.temperature === undefined ? {} : { temperature: request.temperature }),
    ...(request.schema === undefined ? {} : { output: requestJson(request.schema as JSONSchema7) }),
    // The child that asked validates the answer. Strict mode would reject most schemas.
    providerOptions: { openaiCompatible: { strictJsonSchema: false } },
    maxRetries: RETRIES,
    abortSignal: AbortSignal.any([signal, cut.signal]),
    onError: () => undefined,
  });
  let answer: CollectedAnswer;
  try {
    answer = await collect(stream, question, received);
  } catch (error) {
    if (received.characters > 0 || (signal.aborted && isAsked))
      question.onBrokenOff(estimateUsage(request, received.characters));
    if (isNoStream && received.characters === 0 && !signal.aborted)
      throw new EndpointFault(`${provider.name} sends no stream of events; check its baseUrl`);
    throw error instanceof HostError ? error : toHostError(provider, error);
  } finally {
    cut.abort();
  }
  const { text, usage, finishReason } = answer;
  const fault = describeCut(request, finishReason);
  if (fault === null) return { text, usage };
  question.onBrokenOff(usage);
  throw new HostError(`${provider.name} ${fault}`);
}

/** @returns null: the answer is complete, or has the length that the plugin asked for */
function describeCut({ maxTokens, schema }: CompletionRequest, finishReason: FinishReason): string | null {
  if (finishReason === 'content-filter') return 'withheld its answer, or the rest of it: its content filter stopped it';
  if (finishReason !== 'length') return null;
  if (maxTokens === undefined)
    return 'cut its answer off at its own limit of tokens; set maxTokens, or ask for a shorter answer';
  // JSON that is cut off is not JSON.
  return schema === undefined ? null : `cut its answer off at ${maxTokens} tokens; raise maxTokens, or ask for less`;
}

interface CollectedAnswer extends ModelAnswer {
  readonly finishReason: FinishReason;
}

type Parts = ReturnType<typeof streamText>['stream'];

async function collect(
  stream: Parts,
  { provider: { name }, request }: Question,
  heard: { characters: number },
): Promise<CollectedAnswer> {
  let text = '';
  for await (const part of stream) {
    if (part.type === 'text-delta') text += part.text;
    // Reasoning is no part of the answer, but its tokens cost the same.
    if (part.type === 'text-delta' || part.type === 'reasoning-delta') heard.characters += part.text.length;
    if (text.length > TEXT_MAX_CHARS)
      throw new HostError(`the answer of ${name} is longer than ${TEXT_MAX_CHARS} characters`);
    if (part.type === 'error') throw part.error;
    if (part.type === 'abort') throw new HostError('the call ended before the answer was complete');
    if (part.type !== 'finish') continue;
    if (part.rawFinishReason === undefined) break;
    const { inputTokens, outputTokens } = part.totalUsage;
    const estimate = estimateUsage(request, heard.characters);
    const usage = {
      inputTokens: count(inputTokens) || estimate.inputTokens,
      outputTokens: count(outputTokens) || estimate.outputTokens,
    };
    return { text, usage, finishReason: part.finishReason };
  }
  throw new EndpointFault(`${name} broke off before its answer was complete`);
}

/**
 * Characters that count as one token where the endpoint reports none: of an interrupted answer, which a plugin could otherwise read
 * for free by ending each call early, and of endpoints that report no usage.
 */
const CHARACTERS_PER_TOKEN = 4;
function estimateUsage({ system = '', messages }: CompletionRequest, heard: number): ModelAnswer['usage'] {
  const inputCharacters = messages.reduce((sum, { text }) => sum + text.length, system.length);
  const tokens = (characters: number) => Math.ceil(characters / CHARACTERS_PER_TOKEN);
  return { inputTokens: tokens(inputCharacters), outputTokens: tokens(heard) };
}

/** Far more than any model reads or writes for one answer. */
const TOKENS_MAX = 1_000_000_000;
/** Endpoints may report wrong numbers: make them whole, not negative, and small enough to be summed. */
const count = (tokens: number | undefined): number => Math.min(TOKENS_MAX, Math.max(0, Math.trunc(tokens ?? 0) || 0));

function createModel({ provider, modelId, fetch }: Question): LanguageModel {
  const { name, baseUrl, apiKey, kind, structuredOutputs } = provider;
  const baseURL = removeTrailingSlashes(baseUrl);
  // Without an explicit key, the library would read one from the environment.
  if (kind === 'anthropic') return createAnthropic({ baseURL, apiKey: apiKey ?? 'none', fetch })(modelId);
  const maxTokensField = chooseMaxTokensField(provider);
  return createOpenAICompatible({
    name,
    baseURL,
    fetch,
    includeUsage: true,
    supportsStructuredOutputs: structuredOutputs,
    transformRequestBody: ({ max_tokens: maxTokens, ...body }) => ({ ...body, [maxTokensField]: maxTokens }),
    ...(apiKey === undefined ? {} : { apiKey }),
  })(modelId);
}

/** OpenAI's current models refuse `max_tokens`; most other endpoints with its chat completions know only that. */
function chooseMaxTokensField({ baseUrl, maxTokensField }: ModelProvider): string {
  const isOpenAi = /(^|\.)api\.openai\.com$/.test(new URL(baseUrl).hostname);
  return maxTokensField ?? (isOpenAi ? 'max_completion_tokens' : 'max_tokens');
}

/** Anthropic accepts system texts only before the conversation, so all of them are moved there. */
function splitSystemTexts(request: CompletionRequest): { instructions: string; messages: ModelMessage[] } {
  const system = [request.system ?? '', ...request.messages.filter(isSystem).map(({ text }) => text)];
  const messages = request.messages.flatMap(({ role, text }): ModelMessage[] =>
    role === 'system' ? [] : [{ role, content: text }],
  );
  return { instructions: system.filter((text) => text !== '').join('\n\n'), messages };
}
const isSystem = ({ role }: { role: string }): boolean => role === 'system';

/** Requests JSON and returns it as text, which the child that asked parses. The library would parse the partial text after each part. */
const requestJson = (schema: JSONSchema7): Output.Output<string, never, never> => ({
  name: 'json',
  responseFormat: Promise.resolve({ type: 'json', schema }),
  parseCompleteOutput: async ({ text }) => text,
  parsePartialOutput: async () => undefined,
  createElementStreamTransform: () => undefined,
});

function toHostError({ name, apiKey }: ModelProvider, error: unknown): HostError {
  const last = RetryError.isInstance(error) ? error.lastError : error;
  const status = APICallError.isInstance(last) ? last.statusCode : undefined;
  if (status === 401 || status === 403) return new EndpointFault(`${name} rejected the operator’s key (${status})`);
  if (status === 404) return new EndpointFault(`${name} does not know this model or address (404)`);
  if (status === 429) return new HostError(`${name} accepts no more requests for now (429); try again later`);
  if (status !== undefined && status >= 500) return new EndpointFault(`${name} failed (${status}); try again later`);
  if (status !== undefined && status >= 400)
    return new EndpointFault(`${name} rejected this request (${status})${describeFault(last, apiKey)}`);
  if (status !== undefined && status >= 300)
    return new EndpointFault(`${name} redirects (${status}); its baseUrl must be the address that it redirects to`);
  if (status === undefined && APICallError.isInstance(last))
    return new EndpointFault(`${name} cannot be reached${describeCode(last.cause)}`);
  return new EndpointFault(`${name} failed while it answered`);
}

/** A library's error text may contain details of this machine; its code does not. */
function describeCode(cause: unknown): string {
  const { code } = (cause ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? ` (${code})` : '';
}

/** Whether a request that the library would repeat was refused for longer than it would wait. */
function asksForLongWait({ status, headers }: Response): boolean {
  if (!RETRIED_STATUSES.includes(status) && status < 500) return false;
  const ms = Number.parseFloat(headers.get('retry-after-ms') ?? '');
  if (!Number.isNaN(ms)) return ms >= RETRY_AFTER_MAX_MS;
  const after = headers.get('retry-after') ?? '';
  const seconds = Number.parseFloat(after);
  const waitMs = Number.isNaN(seconds) ? Date.parse(after) - Date.now() : seconds * SECOND;
  return waitMs >= RETRY_AFTER_MAX_MS;
}

/** Names of errors and of fields. Its message may contain parts of the operator's key. */
const FAULT_NAME = /^[a-z_.]{1,60}$/;
/** @returns the names of the error and of the field that was refused, as far as the endpoint gives them */
function describeFault(error: unknown, apiKey: string | undefined): string {
  const { data } = error as { readonly data?: { readonly error?: Record<'type' | 'code' | 'param', unknown> } };
  const { type, code, param } = data?.error ?? {};
  const isName = (name: unknown): name is string => typeof name === 'string' && FAULT_NAME.test(name);
  const names = [code ?? type, param].filter(isName).filter((name) => !isPartOfKey(name, apiKey));
  return names.length === 0 ? '' : `: ${names.join(', ')}`;
}
const isPartOfKey = (name: string, apiKey: string | undefined): boolean =>
  apiKey !== undefined && (apiKey.includes(name) || name.includes(apiKey));
