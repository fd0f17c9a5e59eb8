/** Schemas of the values that protocol rows carry. Each is declared here once. */
import { z } from 'zod';
import { boundedList } from './bounded-list.ts';
import { boundedRecord } from './bounded-record.ts';
import { allowNull, refuse } from './field-faults.ts';
import { isRecord } from './is-record.ts';
import { KIB, MIB, MODEL_TIMEOUT_MS } from './limits.ts';

/** An opaque id, made by Bulkhead or by the agent runtime. */
export const id = z.string().min(1).max(200);
/** Longest text of a time in a host call: a fraction of a second may have any number of digits. Characters. */
export const TIME_MAX_CHARS = 40;
/** The last millisecond whose year has four digits, in UTC. */
export const TIME_MAX_MS = Date.parse('9999-12-31T23:59:59.999Z');
/** The first millisecond of the year 1, in UTC. */
export const TIME_MIN_MS = Date.parse('0001-01-01T00:00:00.000Z');
/** A time in ISO 8601 with an offset. In UTC its year has four digits, too: others cannot be written in an answer. */
export const timestamp = z.iso
  .datetime({ offset: true, abort: true })
  .refine(isNameable, 'must be a time between the years 1 and 9999, in UTC');

function isNameable(text: string): boolean {
  const ms = Date.parse(text);
  return ms >= TIME_MIN_MS && ms <= TIME_MAX_MS;
}
/** The name of a tool, command, provider or setting. `__` is reserved: it separates slug and tool name. */
export const surfaceName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'must be 1-64 letters, digits, - or _, starting with a letter')
  .refine((name) => !name.includes('__'), 'must not contain a double underscore');
/** Bytes: a `Uint8Array` in the supervisor and in the child. */
export const bytes = z
  .instanceof(Uint8Array, { error: ({ input }) => refuse(input, 'bytes') })
  .meta({ tsType: 'Uint8Array' });
/** Any JSON value. A plain walk: zod's own schema takes 20 times as long, and every value of a call passes here. */
export const json = z.custom<z.core.util.JSONType>(isJson, 'must be JSON').meta({ tsType: 'Json' });

function isJson(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) {
    if (Array.isArray(value)) return value.every(isJson);
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return false;
    // A list of the values would take as long again. Neither prototype has names of its own to walk.
    for (const name in value) if (!isJson((value as Record<string, unknown>)[name])) return false;
    return true;
  }
  return value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
}
/** zod's own record takes ten times as long. */
const createJsonObject = (error: string, tsType: string) =>
  z
    .custom<Record<string, z.core.util.JSONType>>((value) => isRecord(value) && isJson(value), error)
    .meta({ tsType, type: 'object', additionalProperties: {} });
export const jsonObject = createJsonObject('must be a JSON object', '{ [name: string]: Json }');
/** Settings of an installation, or variables of a command. */
const SETTINGS_MAX = 1_000;
export const settings = boundedRecord(z.string(), SETTINGS_MAX);
/** Node reads no more of one message. */
export const HEADERS_MAX = 2_000;
/** Characters of one header. A request of a plugin has 32 KiB of headers at most, and Node reads 16 KiB of a webhook's. */
export const HEADER_MAX_CHARS = 32 * KIB;

/** The longest text of one transcript message or prompt, in characters. */
export const TEXT_MAX_CHARS = 262_144;
/** The longest reason of a cancelled operation, in characters. The transcript shows it. */
export const REASON_MAX_CHARS = 500;
export const text = z.string().max(TEXT_MAX_CHARS);
export const reason = z.string().min(1).max(REASON_MAX_CHARS);

/** The description of a tool or command, in characters. */
export const description = (max: number) =>
  z
    .string(`must be a string of 1-${max} characters`)
    .min(1, 'must not be empty')
    .max(max, `has more than ${max} characters`);

export const agent = z.object({ id, name: z.string().max(200) });
export const sessionRef = z.object({ id, channelId: id.nullable() });
/** The cause of an operation. */
export const trigger = z.enum(['user', 'channel', 'schedule', 'agent', 'tool', 'system']);

export const attachment = z.object({
  name: z.string().max(255),
  mediaType: z
    .string()
    .max(255)
    .describe('The type that the sender claims, unchecked. With a `mediaId`: the type detected from the bytes.'),
  mediaId: id.optional().describe('A media file. Without `mediaId` and `url`, only the name and type are known.'),
  url: z.url().max(4096).optional(),
});
export const attachments = boundedList(attachment, 50);
export const role = z.enum(['system', 'user', 'assistant', 'tool', 'notice']);
export const transcriptMessage = z.object({
  id,
  role,
  text,
  at: timestamp,
  data: jsonObject.optional(),
});
/** Messages of a summarizer's context: more than the 20,000 values in each MiB of a body that the session API accepts. */
export const SUMMARIZED_MESSAGES_MAX = 100_000;
/** The judgement of the hooks about a message. */
export const judgement = z.object({
  hook: z.string(),
  outcome: z.enum(['unchanged', 'changed', 'cancelled']),
  asked: z.number().int().describe('Number of plugins that were asked.'),
  by: z.array(z.string()).describe('Slugs of the plugins that changed the message, or of the one that cancelled it.'),
  reason: z.string().nullable().describe('Why it was cancelled. Null: it was not.'),
});
/** A message of a model conversation. */
export const chatMessage = z.object({ role: z.enum(['system', 'user', 'assistant']), text });

export const inbound = z.object({ id, from: z.string().max(500), text, attachments: attachments.default([]) });
export const outbound = z.object({ id, text, attachments: attachments.default([]) });
/** The longest text before a piece that a plugin gets with it, in characters. */
export const BEFORE_MAX_CHARS = 4_096;
/** Set where `message.text` is one piece of a message that is being streamed. */
export const partial = z.object({
  /** The end of the text before this piece, as it was shown. */
  before: z.string().max(BEFORE_MAX_CHARS),
  /** Whether this is the last piece, whose text may be empty. */
  done: z.boolean(),
});
export const todoFields = z.object({
  title: z.string().min(1).max(1000),
  notes: z.string().max(65_536),
  dueAt: allowNull(timestamp),
});
const assigneeAgentId = allowNull(id);
export const newTodo = todoFields.extend({ notes: todoFields.shape.notes.default(''), assigneeAgentId });
/** Without defaults: a field that is left out does not change. */
export const todoChanges = todoFields
  .extend({
    assigneeAgentId,
    /** False reopens the to-do. `middleware.todoComplete` judges its completion. */
    done: z.boolean(),
  })
  .partial();
export const todo = newTodo.extend({ id, done: z.boolean() });
export const newNotify = z.object({
  text,
  at: timestamp,
  /** An RRULE of RFC 5545, if the host performs it. */
  repeat: allowNull(z.string().max(200)),
  /** The time zone in which `repeat` counts. */
  zone: z.string().max(64).nullable().default(null),
  to: z.string().max(500),
});
/** A notification that is due. */
export const dueNotify = z.object({
  id,
  text,
  to: z.string().max(500),
  /** When it was due. Null: the runtime did not say. */
  at: timestamp.nullable().default(null),
  repeat: z.string().max(200).nullable().default(null),
  zone: z.string().max(64).nullable().default(null),
});
/** An id that runtimes may leave out. */
export const laterId = id.nullable().default(null);
export const sshHost = z.object({ id, name: z.string().max(200) });
/** A host that runtimes may leave out. */
export const laterSshHost = sshHost.nullable().default(null);
export const sshOutput = z.object({ exitCode: z.number().int().nullable(), stdout: z.string(), stderr: z.string() });
export const sshOptions = z.object({
  cwd: z.string().max(4096).optional(),
  env: settings.optional(),
  timeoutMs: z.number().int().min(1).max(600_000).optional(),
  input: text.optional(),
});

/** One part of a tool result, as in the Model Context Protocol. */
export const content = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({ type: z.literal('image'), data: z.string(), mimeType: z.string().max(255) }),
  z.object({ type: z.literal('json'), json }),
]);
/** A call of a tool; `name` is the full name, such as `notes__add`. */
export const toolCall = z.object({ id, name: z.string().min(1).max(200), arguments: json });
export const toolResult = z.object({ content: z.array(content).max(100), isError: z.boolean() });
/** A JSON Schema 2020-12. The API checks at publish that it is valid. */
export const jsonSchema = createJsonObject('must be a JSON Schema object', 'JsonSchema');

export const model = z.object({
  id: z.string().min(1).max(200),
  name: z.string().max(200),
  contextWindow: z.number().int().positive().optional(),
});
export const completionRequest = z.object({
  model: z.string().max(200).optional(),
  system: text.optional(),
  messages: boundedList(chatMessage, 1000).min(1),
  maxTokens: z.number().int().positive().optional(),
  temperature: z.number().min(0).max(2).optional(),
  schema: jsonSchema.optional(),
});
/** Tool calls of one answer of a model. */
const TOOL_CALLS_MAX = 100;
/** A function that a model may call. */
export const modelTool = z.object({
  name: z.string().min(1).max(200),
  description: z.string().max(10_000),
  parameters: jsonSchema,
});
/** A message to a plugin's model. `tool` is the result of a call, whose id is `toolCallId`. */
export const providerMessage = z.object({
  role: z.enum(['system', 'user', 'assistant', 'tool']),
  text,
  images: boundedList(z.object({ data: z.string(), mimeType: z.string().max(255) }), 20).optional(),
  toolCalls: boundedList(toolCall, TOOL_CALLS_MAX).optional(),
  toolCallId: id.optional(),
});
export const providerRequest = completionRequest.extend({
  messages: boundedList(providerMessage, 1000).min(1),
  tools: boundedList(modelTool, 500).optional(),
});
export const usage = z.object({ inputTokens: z.number().int(), outputTokens: z.number().int() });
export const completion = z.object({ text, json: json.optional(), model: z.string(), usage });
/** `toolCalls` are the calls that the model asks for, of the tools in the request. */
export const providerCompletion = completion.extend({
  toolCalls: boundedList(toolCall, TOOL_CALLS_MAX).optional(),
});
/** Characters of the arguments of all tool calls that an answer yields: in UTF-8 they take up to three bytes each, and fit into a frame. */
export const YIELDED_ARGUMENTS_MAX_CHARS = MIB;
/**
 * A piece of an answer, in order: more of its text, or more of one tool call. `index` is the call's place in `toolCalls`; its first
 * piece has `id` and `name`, and the pieces of `argumentsText` together are the JSON of its arguments.
 */
export const providerDelta = z.object({
  text: text.optional(),
  toolCall: z
    .object({
      index: z
        .number()
        .int()
        .min(0)
        .max(TOOL_CALLS_MAX - 1),
      id: id.optional(),
      name: z.string().min(1).max(200).optional(),
      argumentsText: text.optional(),
    })
    .optional(),
});

export const channelRequest = z.object({
  deliveryId: id,
  attempt: z.number().int().positive(),
  channelId: id,
  routingId: z.string(),
  receivedAt: timestamp,
  method: z.string().max(32),
  query: z.string(),
  headers: boundedRecord(z.string(), HEADERS_MAX),
  rawHeaders: z.array(z.tuple([z.string(), z.string()])),
  bodyText: z.string(),
  bodyBytes: bytes,
});
export const channelMessage = z.object({
  conversationKey: z.string().min(1).max(500),
  from: z.string().max(500),
  text,
  attachments: attachments.optional(),
});
/** Every attempt at a reply has the same `deliveryId`, and so does a replay. */
export const channelReply = z.object({
  conversationKey: z.string(),
  text,
  attachments,
  deliveryId: id,
  attempt: z.number().int().positive(),
  channelId: id,
});
/**
 * The headers that a handshake's response may have: those that vendors ask for (Asana, CloudEvents). Others would be
 * instructions to a proxy in front of the service, such as X-Accel-Redirect, or would replace the service's own.
 */
export const HANDSHAKE_HEADERS: readonly string[] = [
  'content-type',
  'x-hook-secret',
  'webhook-allowed-origin',
  'webhook-allowed-rate',
];
/** What HTTP allows in the value of a header. */
const headerValue = z
  .string()
  .max(8192)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'holds a character that no header may');
/** Vendors ask for their challenge again, which has some hundred characters. */
export const HANDSHAKE_BODY_MAX_CHARS = 65_536;
export const handshakeAnswer = z.object({
  status: z.number().int().min(200).max(599),
  headers: boundedRecord(headerValue, HEADERS_MAX).optional(),
  body: z.string().max(HANDSHAKE_BODY_MAX_CHARS).optional(),
});

export const fileEntry = z.object({ path: z.string(), sizeBytes: z.number().int(), updatedAt: timestamp });
export const agentRecord = z.object({ id, name: z.string(), instructions: text, model: z.string().nullable() });
export const agentFields = z.object({
  name: z.string().min(1).max(200),
  instructions: text.optional(),
  model: z.string().max(200).nullable().optional(),
});
/** The method of `webhooks`, without `verify`. */
export const signatureScheme = z.enum(['Standard', 'Stripe', 'GitHub', 'Slack']);
export const httpInit = z.object({
  method: z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']).optional(),
  headers: boundedRecord(z.string().max(HEADER_MAX_CHARS), HEADERS_MAX).optional(),
  body: z.union([z.string(), bytes]).optional(),
  timeoutMs: z.number().int().min(1).max(MODEL_TIMEOUT_MS).optional(),
  redirect: z.enum(['follow', 'error']).optional(),
});
export const httpAnswer = z.object({
  status: z.number().int(),
  headers: boundedRecord(z.string(), HEADERS_MAX),
  bodyText: z.string(),
  bodyBytes: bytes,
});
/** The same for `fetch`, which answers when the headers have arrived. `headers` joins the `Set-Cookie` headers. */
export const openedHttpAnswer = httpAnswer.extend({ setCookies: z.array(z.string()).max(HEADERS_MAX) });
