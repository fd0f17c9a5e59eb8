/** Translates between OpenAI's chat completions and the surface of model providers. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { boundedList } from '../../sdk/contract/bounded-list.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { jsonSchema } from '../../sdk/contract/payloads.ts';
import type { ProblemBody } from '../../sdk/contract/problem-body.ts';
import { checkCost, countValuesMax, JSON_LEVELS_MAX, JsonError } from '../../sdk/contract/untrusted-json.ts';
import type { ProviderDelta } from '../children/answer-deltas.ts';
import type { ProviderAnswer, ProviderRequest } from './providers.ts';
import { CALL_BODY_MAX_BYTES } from './session-services.ts';

/** Maximum number of JSON values in the arguments of all tool calls of a request. Arguments are JSON in strings. */
const ARGUMENTS_VALUES_MAX = countValuesMax(CALL_BODY_MAX_BYTES);
/** The message to a child takes ten levels around the arguments. */
const ARGUMENTS_LEVELS_MAX = JSON_LEVELS_MAX - 10;

/** Parts or tool calls of one message. A provider takes fewer. */
const PARTS_MAX = 1_000;
/** Characters of an unknown type that the error repeats. */
const TYPE_SHOWN_CHARS = 100;
const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const TEXTS = z.union([z.string(), boundedList(part, PARTS_MAX)]);
const toolCall = z.looseObject({
  id: z.string(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});
const chatMessage = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content: z
    .union([TEXTS, z.null()])
    .optional()
    .describe('A text, or parts: `text`, and `image_url` with a `data:` address.'),
  tool_calls: boundedList(toolCall, PARTS_MAX).optional(),
  tool_call_id: z.string().optional(),
});
/** Other fields are accepted and have no effect, as on other servers of this protocol. */
export const chatRequest = z
  .looseObject({
    model: z.string().min(1).describe('`<slug>__<provider>/<model>`'),
    messages: boundedList(chatMessage, 1000).min(1),
    stream: z.boolean().nullish().describe('The answer as server-sent events.'),
    stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
    max_tokens: z.int().positive().nullish(),
    max_completion_tokens: z.int().positive().nullish(),
    temperature: z.number().min(0).max(2).nullish(),
    tools: boundedList(
      z.looseObject({
        type: z.literal('function'),
        function: z.looseObject({
          name: z.string(),
          description: z.string().optional(),
          parameters: jsonSchema.optional(),
        }),
      }),
      500,
    ).nullish(),
    response_format: z
      .looseObject({
        type: z.string(),
        json_schema: z.looseObject({ schema: jsonSchema.optional() }).optional(),
      })
      .nullish()
      .describe('`json_schema` with a schema is passed to the provider.'),
  })
  .meta({ id: 'ChatRequest', description: 'A request of OpenAI’s chat completions.' });
type ChatRequest = z.output<typeof chatRequest>;
type ProviderCall = NonNullable<ProviderAnswer['toolCalls']>[number];
type ChatMessage = z.output<typeof chatMessage>;

/** Splits `<slug>__<provider>/<model>`. @throws Problem `not_found` */
export function splitModel(model: string): { provider: string; model: string } {
  const at = model.indexOf('/');
  if (at > 0) return { provider: model.slice(0, at), model: model.slice(at + 1) };
  throw new Problem('not_found', 'Name the model as <slug>__<provider>/<model>; GET /v1/models lists them.');
}

/** @throws Problem `bad_request` */
export function toProviderRequest(request: ChatRequest): ProviderRequest {
  const maxTokens = request.max_completion_tokens ?? request.max_tokens;
  const { temperature, tools, response_format: format } = request;
  const readArguments = openArgumentsReader();
  const schema = format?.type === 'json_schema' ? format.json_schema?.schema : undefined;
  return {
    messages: request.messages.map((message, index) =>
      toProviderMessage(message, (text, call) =>
        readArguments(text, `messages.${index}.tool_calls.${call}.function.arguments`),
      ),
    ),
    ...(typeof maxTokens === 'number' ? { maxTokens } : {}),
    ...(typeof temperature === 'number' ? { temperature } : {}),
    ...(schema === undefined ? {} : { schema }),
    ...(tools && tools.length > 0
      ? {
          tools: tools.map(({ function: { name, description = '', parameters = { type: 'object' } } }) => ({
            name,
            description,
            parameters,
          })),
        }
      : {}),
  };
}

function toProviderMessage(
  { role, content, tool_calls, tool_call_id }: ChatMessage,
  readArguments: (text: string, call: number) => ProviderCall['arguments'],
): ProviderRequest['messages'][number] {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  const unknown = parts.find(({ type }) => type !== 'text' && type !== 'image_url');
  if (unknown)
    throw new Problem(
      'bad_request',
      `messages: a content part of the type “${unknown.type.slice(0, TYPE_SHOWN_CHARS)}” is not supported. Send text and image_url.`,
    );
  const images = parts.filter(({ type }) => type === 'image_url').map(readImage);
  const text = parts.flatMap((part) => (part.type === 'text' && part.text !== undefined ? [part.text] : [])).join('');
  return {
    role: role === 'developer' ? 'system' : role,
    text,
    ...(images.length > 0 ? { images } : {}),
    ...(tool_calls && tool_calls.length > 0
      ? {
          toolCalls: tool_calls.map(({ id, function: called }, call) => ({
            id,
            name: called.name,
            arguments: readArguments(called.arguments, call),
          })),
        }
      : {}),
    ...(tool_call_id === undefined ? {} : { toolCallId: tool_call_id }),
  };
}

/**
 * Reads JSON inside texts of one body, whose bounds did not count it.
 *
 * @returns a function that throws Problem `bad_request` or `too_large`
 */
function openArgumentsReader(): (text: string, field: string) => ProviderCall['arguments'] {
  let valuesMax = ARGUMENTS_VALUES_MAX;
  return (text, field) => {
    // Some models write this for a tool without parameters.
    if (text === '') return {};
    const bytes = Buffer.from(text);
    try {
      valuesMax -= checkCost(bytes, 0, bytes.byteLength, { levelsMax: ARGUMENTS_LEVELS_MAX, valuesMax }).values;
      return JSON.parse(text);
    } catch (error) {
      const [code, message] =
        error instanceof JsonError
          ? ([error.fault === 'too_many_values' ? 'too_large' : 'bad_request', error.message] as const)
          : (['bad_request', 'is not JSON'] as const);
      throw new Problem(code, `${field}: the text ${message}.`, { errors: [{ field, message }] });
    }
  };
}

/** @throws Problem `bad_request` */
function readImage(part: Readonly<Record<string, unknown>>): { data: string; mimeType: string } {
  const { url } = (part.image_url ?? {}) as { url?: unknown };
  const found = /^data:([\w.+-]+\/[\w.+-]+);base64,([A-Za-z0-9+/=]+)$/.exec(typeof url === 'string' ? url : '');
  if (found?.[1] && found[2]) return { mimeType: found[1], data: found[2] };
  throw new Problem('bad_request', 'messages: send an image as a data: address with base64; no other address is read.');
}

const seconds = (): number => Math.floor(Date.now() / 1000);

const listCalls = ({ toolCalls = [] }: ProviderAnswer) =>
  toolCalls.map(({ id, name, arguments: args }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: JSON.stringify(args) },
  }));
const toUsage = ({ usage: { inputTokens, outputTokens } }: ProviderAnswer) => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
});
const finishOf = ({ toolCalls = [] }: ProviderAnswer) => (toolCalls.length > 0 ? 'tool_calls' : 'stop');

/** The answer as one body. */
export function toCompletion(model: string, answer: ProviderAnswer) {
  const calls = listCalls(answer);
  return {
    id: `chatcmpl-${randomUUID()}`,
    object: 'chat.completion' as const,
    created: seconds(),
    model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant' as const,
          content: answer.text === '' && calls.length > 0 ? null : answer.text,
          refusal: null,
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
        },
        logprobs: null,
        finish_reason: finishOf(answer),
      },
    ],
    usage: toUsage(answer),
  };
}

/** Writes the deltas of an answer as chunks, each an event, until the answer is whole. @throws what the deltas throw */
export async function* formatChunks(
  model: string,
  deltas: AsyncGenerator<ProviderDelta, ProviderAnswer>,
  hasUsage: boolean,
): AsyncGenerator<string> {
  const head = { id: `chatcmpl-${randomUUID()}`, object: 'chat.completion.chunk', created: seconds(), model };
  const chunk = (delta: object, finish: string | null = null) =>
    formatData({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }] });
  let next = await deltas.next();
  yield chunk({ role: 'assistant', content: '' });
  for (; !next.done; next = await deltas.next()) yield chunk(toChunkDelta(next.value));
  const answer = next.value;
  yield chunk({}, finishOf(answer));
  if (hasUsage) yield formatData({ ...head, choices: [], usage: toUsage(answer) });
  yield formatData('[DONE]');
}

const formatData = (data: object | string): string =>
  `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

function toChunkDelta({ text, toolCall }: ProviderDelta): object {
  if (!toolCall) return { content: text };
  const { index, id, name, argumentsText = '' } = toolCall;
  const head = id === undefined ? {} : { id, type: 'function' };
  const called = name === undefined ? { arguments: argumentsText } : { name, arguments: argumentsText };
  return { tool_calls: [{ index, ...head, function: called }] };
}

/** An error after the first chunk: OpenAI's clients throw it. */
export const formatChunkError = (problem: ProblemBody): string => formatData(toOpenAiError(problem));

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'invalid_request_error',
  429: 'rate_limit_error',
};

/** A problem in the form that OpenAI's clients read. */
export const toOpenAiError = ({ status, code, detail, errors }: ProblemBody) => ({
  error: {
    message: detail,
    type: ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
    param: errors?.[0]?.field ?? null,
    code,
  },
});
