/**
 * Declares every hook, event, registered surface, host call and control message exactly once. Types, validation, grants,
 * limits, `globals.d.ts`, the reference, catalog sentences and metric labels are derived from these rows.
 *
 * To add a host call: a row here, a handler in `supervisor/host/` and an example in `host-examples.ts`.
 * To add a hook: a row here and its call site.
 */
import { z } from 'zod';
import { boundedList } from './bounded-list.ts';
import { boundedRecord } from './bounded-record.ts';
import { limits, MIB, MODEL_TIMEOUT_MS, REGISTRATIONS_MAX, SECOND, SESSION_MESSAGES_DEFAULT } from './limits.ts';
import * as p from './payloads.ts';
import type { CapabilityRow, EventRow, HookRow, HostRow, Reach, SurfaceRow } from './rows.ts';

// Hooks
/**
 * The fields of every hook context. The supervisor sets them; the child adds `signal`, which aborts at the deadline or when
 * the caller gives up.
 */
export const hookBase = z.object({
  hook: z.string(),
  invocationId: p.id,
  settings: p.settings,
  agent: p.agent,
  session: p.sessionRef,
  trigger: p.trigger,
  at: p.timestamp,
  deadlineAt: p.timestamp,
  repeated: z.literal(true).optional(),
});

const LINK_BUDGET_MS = 5 * SECOND;
const cancellable = {
  since: '0.1.0',
  cancellable: true,
  onFailure: 'skip',
  budgetMs: LINK_BUDGET_MS,
} as const;
const failClosed = { ...cancellable, onFailure: 'cancel' } as const;
const patch = <const P extends readonly string[]>(...patchable: P) => ({ kind: 'patch', patchable }) as const;
const TODO = { id: 't1', title: 'Buy milk', notes: '', dueAt: null, assigneeAgentId: null, done: false };
const SSH_HOST = { id: 'h1', name: 'web' };
const TOOL_CALL = { id: 'c1', name: 'notes__add', arguments: { text: 'Buy milk' } };
const NOTIFY = { text: 'Stand-up', at: '2026-01-05T09:00:00Z', repeat: null, zone: null, to: 'team' };

export const hooks = {
  'middleware.systemPrompt': {
    doc: 'Runs before every model call. Returns the system prompt to use instead.',
    since: '0.1.0',
    reach: 'Reads and changes the system prompt of your agents before every model call.',
    risk: 'medium',
    context: z.object({ systemPrompt: p.text, model: z.string().max(200).default('') }),
    answers: { kind: 'replace', field: 'systemPrompt', schema: z.string().min(1).max(p.TEXT_MAX_CHARS) },
    cancellable: false,
    onFailure: 'skip',
    budgetMs: 3 * SECOND,
    example: { context: { systemPrompt: 'Be brief.', model: 'any' }, answer: 'Be brief. Use metric units.' },
  },
  'compaction.summarize': {
    doc: 'Summarizes a conversation instead of the built-in summarizer. If the summary is blank or oversized, the built-in summarizer runs.',
    since: '0.1.0',
    reach: 'Reads whole conversations and writes the summaries that replace them.',
    risk: 'high',
    context: z.object({
      messages: boundedList(p.transcriptMessage, p.SUMMARIZED_MESSAGES_MAX),
      focus: z.string().max(10_000).nullable(),
      maxChars: z.number().int(),
    }),
    answers: { kind: 'replace', field: 'summary', schema: z.string() },
    cancellable: false,
    onFailure: 'builtin',
    budgetMs: 60 * SECOND,
    example: { context: { messages: [], focus: null, maxChars: 65_536 }, answer: 'They said hello.' },
  },
  'middleware.inboundMessage': {
    ...cancellable,
    doc: 'Runs when a message for an agent arrives, before the agent receives it. Also for a summary that another plugin made of a conversation, with `from: "summary"`.',
    reach: 'Reads, changes and can cancel every message to your agents.',
    risk: 'high',
    context: z.object({ message: p.inbound }),
    answers: patch('message.text', 'message.attachments'),
    example: {
      context: { message: { id: 'm1', from: 'ann', text: 'hello', attachments: [] } },
      answer: { message: { text: 'hello!' } },
    },
  },
  'middleware.outboundMessage': {
    ...cancellable,
    doc: 'Runs when an agent has written a message, before it is sent.',
    reach: 'Reads, changes and can cancel every message from your agents.',
    risk: 'high',
    context: z.object({ message: p.outbound, target: z.string().max(500), partial: p.partial.optional() }),
    answers: patch('message.text', 'message.attachments'),
    streams: true,
    example: {
      context: { message: { id: 'm2', text: 'hi', attachments: [] }, target: 'ann' },
      answer: { message: { text: 'Hi.' } },
    },
  },
  'middleware.agentMessage': {
    ...cancellable,
    doc: 'Runs when one agent sends a message to another. `toSessionId` is the session that gets it.',
    reach: 'Reads, changes and can cancel messages between your agents.',
    risk: 'high',
    context: z.object({
      fromAgentId: p.id,
      toAgentId: p.id,
      message: z.object({ text: p.text, attachments: p.attachments.optional() }),
      toSessionId: p.laterId,
    }),
    answers: patch('message.text'),
    example: {
      context: { fromAgentId: 'a1', toAgentId: 'a2', message: { text: 'ping' }, toSessionId: 's2' },
      answer: { message: { text: 'ping?' } },
    },
  },
  'middleware.toolCall': {
    ...cancellable,
    doc: 'Runs before an agent’s call of any tool: a plugin’s, the host’s or the runtime’s own. If it is cancelled, the agent reads the reason as the result.',
    reach: 'Reads, changes and can cancel every tool call of your agents.',
    risk: 'high',
    context: z.object({ call: p.toolCall }),
    answers: patch('call.arguments'),
    example: { context: { call: TOOL_CALL }, answer: { call: { arguments: { text: 'Buy oat milk' } } } },
  },
  'middleware.toolResult': {
    ...cancellable,
    doc: 'Runs when a tool has answered, or another plugin has cancelled the call, before the agent receives the result. If it is cancelled, the agent reads the reason instead. `call` is as the tool received it.',
    reach: 'Reads, changes and can withhold the result of every tool call of your agents.',
    risk: 'high',
    context: z.object({ call: p.toolCall, result: p.toolResult, durationMs: z.number() }),
    answers: patch('result.content', 'result.isError'),
    example: {
      context: {
        call: TOOL_CALL,
        result: { content: [{ type: 'text', text: 'key=1' }], isError: false },
        durationMs: 3,
      },
      answer: { result: { content: [{ type: 'text', text: 'key=[redacted]' }] } },
    },
  },
  'middleware.todoCreate': {
    ...cancellable,
    doc: 'Runs before a to-do is created.',
    reach: 'Reads, changes and can cancel new to-dos.',
    risk: 'low',
    context: z.object({ todo: p.newTodo }),
    answers: patch('todo.title', 'todo.notes', 'todo.dueAt'),
    example: {
      context: { todo: { title: 'Buy milk', notes: '', dueAt: null, assigneeAgentId: null } },
      answer: { todo: { title: 'Buy oat milk' } },
    },
  },
  'middleware.todoUpdate': {
    ...cancellable,
    doc: 'Runs before a to-do is changed. `changes` has only the fields that change; a returned `changes` replaces it completely.',
    reach: 'Reads, changes and can cancel edits of to-dos.',
    risk: 'low',
    context: z.object({ before: p.todo, changes: p.todoChanges }),
    answers: patch('changes'),
    example: { context: { before: TODO, changes: { notes: 'two' } }, answer: { changes: { notes: 'three' } } },
  },
  'middleware.todoComplete': {
    ...cancellable,
    doc: 'Runs before a to-do is marked as done.',
    reach: 'Reads to-dos when they are completed and can cancel that.',
    risk: 'low',
    context: z.object({ todo: p.todo, by: z.string().max(500) }),
    answers: patch(),
    example: { context: { todo: TODO, by: 'a1' }, answer: undefined },
  },
  'middleware.todoDelete': {
    ...cancellable,
    doc: 'Runs before a to-do is deleted.',
    reach: 'Reads to-dos when they are deleted and can cancel that.',
    risk: 'low',
    context: z.object({ todo: p.todo }),
    answers: patch(),
    example: { context: { todo: TODO }, answer: undefined },
  },
  'middleware.notifySchedule': {
    ...cancellable,
    doc: 'Runs before a notification is scheduled. `notifyId` is the `notify.id` of its deliveries.',
    reach: 'Reads, changes and can cancel notifications when your agents schedule them.',
    risk: 'medium',
    context: z.object({ notifyId: p.laterId, notify: p.newNotify }),
    answers: patch('notify.text', 'notify.at'),
    example: { context: { notifyId: 'n1', notify: NOTIFY }, answer: { notify: { text: 'Stand-up in five' } } },
  },
  'middleware.notifyDeliver': {
    ...cancellable,
    doc: 'Runs before a scheduled notification is delivered.',
    reach: 'Reads, changes and can cancel notifications when they are delivered.',
    risk: 'medium',
    context: z.object({ notify: p.dueNotify }),
    answers: patch('notify.text'),
    example: {
      context: { notify: { ...NOTIFY, id: 'n1', text: 'Stand-up' } },
      answer: { notify: { text: 'Stand-up now' } },
    },
  },
  'middleware.sshCommand': {
    ...failClosed,
    doc: 'Runs before a command runs over SSH. All three SSH hooks of a command have its `commandId` and host. If the handler fails or times out, the command is cancelled.',
    reach: 'Reads, changes and can cancel commands that your agents run over SSH.',
    risk: 'high',
    context: z.object({
      commandId: p.laterId,
      host: p.sshHost,
      command: z.string().max(131_072),
      cwd: z.string().max(4096).nullable(),
      env: p.settings,
      timeoutMs: z.number().int(),
    }),
    answers: patch('command', 'cwd', 'env'),
    example: {
      context: { commandId: 'c1', host: SSH_HOST, command: 'ls', cwd: null, env: {}, timeoutMs: 1000 },
      answer: { command: 'ls -l' },
    },
  },
  'middleware.sshCommandInput': {
    ...failClosed,
    doc: 'Runs before input is sent to a running SSH command. If the handler fails or times out, the input is cancelled.',
    reach: 'Reads, changes and can cancel input that your agents send to SSH commands.',
    risk: 'high',
    context: z.object({ commandId: p.id, host: p.laterSshHost, data: p.text }),
    answers: patch('data'),
    example: { context: { commandId: 'c1', host: SSH_HOST, data: 'yes\n' }, answer: { data: 'no\n' } },
  },
  'middleware.sshCommandOutput': {
    ...cancellable,
    cancellable: false,
    doc: 'Runs when an SSH command has exited, before the agent receives its output.',
    reach: 'Reads and changes the output of SSH commands that your agents run.',
    risk: 'high',
    context: z.object({
      commandId: p.laterId,
      host: p.laterSshHost,
      command: z.string(),
      exitCode: z.number().int().nullable(),
      stdout: z.string(),
      stderr: z.string(),
      durationMs: z.number(),
    }),
    answers: patch('stdout', 'stderr'),
    example: {
      context: {
        commandId: 'c1',
        host: SSH_HOST,
        command: 'ls',
        exitCode: 0,
        stdout: 'key=1',
        stderr: '',
        durationMs: 3,
      },
      answer: { stdout: 'key=[redacted]' },
    },
  },
  'middleware.sessionClear': {
    ...cancellable,
    doc: 'Runs before a session is cleared.',
    reach: 'Sees when a session is cleared and can cancel that.',
    risk: 'low',
    context: z.object({ reason: z.string().max(1000), messageCount: z.number().int(), by: z.string().max(500) }),
    answers: patch(),
    example: { context: { reason: 'fresh start', messageCount: 4, by: 'user' }, answer: undefined },
  },
} as const satisfies Record<string, HookRow>;
export type HookName = keyof typeof hooks;

// Events
const EVENT_BUDGET_MS = 30 * SECOND;
const lifecycle = { since: '0.1.0', risk: 'low', budgetMs: EVENT_BUDGET_MS, attempts: 8 } as const;
const sessionAgent = { sessionId: p.id, agentId: p.id };

export const events = {
  pluginInstalled: {
    ...lifecycle,
    doc: 'The plugin was installed, or the user asked to run its setup again.',
    reach: 'Receives an event when it is installed.',
    data: z.object({ reason: z.enum(['install', 'rerun-setup']) }),
    example: { reason: 'install' },
  },
  pluginUninstalled: {
    ...lifecycle,
    attempts: 3,
    doc: 'The plugin is being uninstalled. Runs before the removal, which proceeds after three failed attempts.',
    reach: 'Receives an event when it is uninstalled.',
    data: z.object({ by: z.string() }),
    example: { by: 'user' },
  },
  pluginUpdated: {
    ...lifecycle,
    doc: 'The installation moved to another version. The new version receives the event.',
    reach: 'Receives an event when it is updated.',
    data: z.object({ fromVersionId: p.id, toVersionId: p.id, fromSemVer: z.string(), toSemVer: z.string() }),
    example: { fromVersionId: 'v1', toVersionId: 'v2', fromSemVer: '1.0.0', toSemVer: '1.1.0' },
  },
  sessionStarted: {
    ...lifecycle,
    doc: 'A session started: an agent runtime opened it, or the first message arrived on a channel or for an agent.',
    reach: 'Receives an event when a session of your agents starts.',
    data: z.object({ ...sessionAgent, channelId: p.id.nullable() }),
    example: { sessionId: 's1', agentId: 'a1', channelId: null },
  },
  sessionCleared: {
    ...lifecycle,
    doc: 'A session was cleared: its messages were deleted, the session continues.',
    reach: 'Receives an event when a session is cleared.',
    data: z.object({ ...sessionAgent, messageCount: z.number().int() }),
    example: { sessionId: 's1', agentId: 'a1', messageCount: 4 },
  },
  sessionDeleted: {
    ...lifecycle,
    doc: 'A session was deleted, directly or together with its agent, its channel or the installation that created them. None is sent while the account has used up its quota of deliveries.',
    reach: 'Receives an event when a session is deleted.',
    data: z.object(sessionAgent),
    example: { sessionId: 's1', agentId: 'a1' },
  },
} as const satisfies Record<string, EventRow>;
export type EventName = keyof typeof events;
/** The argument of an event handler. `id` is the same on every attempt, so that handlers can be idempotent. */
export const eventEnvelope = z.object({
  id: p.id,
  type: z.string(),
  occurredAt: p.timestamp,
  attempt: z.number().int().positive(),
  installationId: p.id,
  pluginId: p.id,
  versionId: p.id,
  semVer: z.string(),
  data: p.jsonObject,
});

// Registered surfaces
const surface = { since: '0.1.0', budgetMs: 60 * SECOND } as const;
const callFrame = { invocationId: p.id, settings: p.settings, deadlineAt: p.timestamp };

/** Messages of one webhook request. */
const MESSAGES_MAX = 100;
/** One capability covers all channel handlers, so its sentence names what each of them does. */
const channelReach = {
  reach:
    'Receives webhooks and turns them into messages for your agents, responds to vendors that verify its webhook address, and sends your agents’ replies in its conversations to the connected vendor.',
  risk: 'high',
} as const;

/** Keyed by kind of handler: `tools` stands for `tools.<name>.handler`, `providers` for `providers.<name>.chat`. */
export const surfaces = {
  tools: {
    ...surface,
    resultMax: { bytes: limits.toolResultBytes },
    doc: 'A tool that agents can call. Arguments are validated against `parameters` before the handler runs. A returned string, or any other JSON value, becomes one text part. A call that returns nothing fails: a tool that only acts returns a text such as `Done.`',
    reach: 'Offers the tool “{name}” to your agents.',
    risk: 'medium',
    registration: z.object({ description: p.description(4096), parameters: p.jsonSchema }),
    params: z.object({ ...callFrame, callId: p.id, session: p.sessionRef, agent: p.agent, arguments: p.json }),
    first: 'arguments',
    result: p.toolResult,
  },
  commands: {
    ...surface,
    resultMax: { textChars: p.TEXT_MAX_CHARS },
    doc: 'A command that users can run in a session. Returns the text to show or to send. A call that returns nothing fails.',
    reach: 'Offers the command “/{name}”.',
    risk: 'low',
    registration: z.object({ description: p.description(1024) }),
    params: z.object({ ...callFrame, session: p.sessionRef, agent: p.agent, input: p.text }),
    first: 'input',
    result: z.object({ text: p.text }),
  },
  providers: {
    ...surface,
    budgetMs: MODEL_TIMEOUT_MS,
    resultMax: { bytes: limits.frameBytes, textChars: p.TEXT_MAX_CHARS },
    doc: `A model provider: the models it offers, and \`chat\`, which completes one request. As an async generator, \`chat\` yields the pieces of its answer as they come and returns the whole answer. The pieces may have at most ${p.TEXT_MAX_CHARS.toLocaleString('en')} characters of text in all, and ${p.YIELDED_ARGUMENTS_MAX_CHARS.toLocaleString('en')} of arguments.`,
    reach: 'Offers models as provider “{name}” and reads the conversations sent to them.',
    risk: 'high',
    registration: z.object({ models: z.array(p.model).min(1).max(100) }),
    params: z.object({ ...callFrame, request: p.providerRequest }),
    first: 'request',
    result: p.providerCompletion,
    delta: p.providerDelta,
  },
  'channel.receive': {
    ...surface,
    budgetMs: 30 * SECOND,
    // Longer ones do not fit into a frame of the child.
    resultMax: { bytes: limits.frameBytes },
    doc: `Receives one webhook request of a connected channel, at least once and in order. Return nothing to add no message. At most ${MESSAGES_MAX} messages; in each, \`conversationKey\` has 1 to 500 characters, \`from\` at most 500, \`text\` at most ${p.TEXT_MAX_CHARS.toLocaleString('en')}, and \`attachments\` at most 50. None of them may contain U+0000 or lone surrogates: replace them with \`text.toWellFormed().replaceAll('\\0', '\\ufffd')\`.`,
    ...channelReach,
    registration: null,
    params: z.object({ ...callFrame, request: p.channelRequest }),
    first: 'request',
    result: z.object({ messages: boundedList(p.channelMessage, MESSAGES_MAX) }).optional(),
  },
  'channel.send': {
    ...surface,
    budgetMs: 30 * SECOND,
    resultMax: {},
    doc: 'Sends an agent’s reply to the vendor, at least once. Every attempt has the same `deliveryId`, with which a vendor can recognise a repetition; `attempt` counts from 1.',
    ...channelReach,
    registration: null,
    params: z.object({ ...callFrame, message: p.channelReply }),
    first: 'message',
    result: z.undefined(),
  },
  'channel.handshake': {
    ...surface,
    budgetMs: 2_500,
    resultMax: { bodyChars: p.HANDSHAKE_BODY_MAX_CHARS },
    doc: 'Responds immediately to a vendor that verifies the webhook address, by GET, OPTIONS or a POST that `channel.handshakeOn` selects. Return nothing to queue the request for `channel.receive`. Of `headers`, only `content-type`, `x-hook-secret`, `webhook-allowed-origin` and `webhook-allowed-rate` are sent.',
    ...channelReach,
    registration: null,
    params: z.object({ ...callFrame, request: p.channelRequest }),
    first: 'request',
    result: p.handshakeAnswer.optional(),
  },
} as const satisfies Record<string, SurfaceRow>;
export type SurfaceName = keyof typeof surfaces;
/** `channel.handshakeOn`: selects the POST requests that are a handshake. */
export const handshakeOn = z
  .strictObject({ jsonType: z.string().min(1).max(200).optional(), header: z.string().min(1).max(200).optional() })
  .refine(({ jsonType, header }) => jsonType !== undefined || header !== undefined, 'needs jsonType or header');

/** The registrations of a bundle, which introspection records at publish. At run time a child may register nothing else. */
export const registrations = z.object({
  hooks: z.array(z.string()).max(REGISTRATIONS_MAX),
  /** The hooks whose handlers were assigned with `stream: true`. */
  streams: z.array(z.string()).max(REGISTRATIONS_MAX).optional(),
  events: z.array(z.string()).max(REGISTRATIONS_MAX),
  tools: boundedRecord(surfaces.tools.registration, REGISTRATIONS_MAX),
  commands: boundedRecord(surfaces.commands.registration, REGISTRATIONS_MAX),
  providers: boundedRecord(surfaces.providers.registration, REGISTRATIONS_MAX),
  channel: z.object({
    receive: z.boolean(),
    send: z.boolean(),
    handshake: z.boolean(),
    handshakeOn: handshakeOn.nullable(),
  }),
});
export type Registrations = z.infer<typeof registrations>;

/** A fault in the `parameters` of a tool, found when the bundle was introspected. `at` is a JSON pointer. */
export const schemaFault = z.object({ tool: z.string(), at: z.string(), message: z.string() });
export type SchemaFault = z.infer<typeof schemaFault>;
/** The faults in the arguments of a call. */
const argumentFault = z.object({ field: z.string().max(500), message: z.string().max(500) });
export type ArgumentFault = z.infer<typeof argumentFault>;

// Host capabilities
/** Frontmatter declares these as `host.<member>` or `host.<member>:read`. */
export const capabilities = {
  session: {
    reach: 'Reads session transcripts and adds messages to them.',
    risk: 'high',
    read: { reach: 'Reads session transcripts.', risk: 'medium' },
  },
  agents: {
    reach: 'Lists, creates, changes, removes and messages your agents.',
    risk: 'high',
    read: { reach: 'Lists your agents.', risk: 'low' },
  },
  models: {
    reach: 'Lists the models your agents can use.',
    risk: 'low',
    read: { reach: 'Lists the models your agents can use.', risk: 'low' },
  },
  workspace: {
    reach: 'Reads, writes and removes files in your workspace.',
    risk: 'high',
    read: { reach: 'Reads files in your workspace.', risk: 'medium' },
  },
  media: {
    reach: 'Reads, writes and removes your media files.',
    risk: 'medium',
    read: { reach: 'Reads your media files.', risk: 'medium' },
  },
  llm: {
    reach: 'Calls your language models, at your cost.',
    risk: 'medium',
    // No call of a model only reads. The form exists because every member has it.
    read: { reach: 'Calls none of your language models.', risk: 'low' },
  },
  ssh: {
    reach: 'Runs commands on your SSH hosts.',
    risk: 'high',
    read: { reach: 'Lists your SSH hosts.', risk: 'low' },
  },
  storage: {
    reach: 'Stores up to 1 MiB of its own data.',
    risk: 'low',
    read: { reach: 'Reads its own stored data.', risk: 'low' },
  },
} as const satisfies Record<string, CapabilityRow>;
type CapabilityMember = keyof typeof capabilities;
/** `host.http:<host or *.host>`, the only capability with a parameter. */
export const httpReach: Reach = { reach: 'Connects to {host}.', risk: 'medium' };

/** The use of a secret: the plugin reads it, or the host uses it for the plugin. */
export const secretReach = {
  read: { reach: 'Reads the value of the secret “{name}”.', risk: 'medium' },
  http: { reach: 'Has the secret “{name}” sent to {host}, without seeing its value.', risk: 'low' },
  webhooks: {
    reach: 'Has webhook signatures checked with the secret “{name}”, without seeing its value.',
    risk: 'low',
  },
} as const satisfies Record<string, Reach>;

// Host calls
const call = {
  since: '0.1.0',
  readable: false,
  timeoutMs: 10 * SECOND,
  maxBytes: MIB,
  audit: 'digest',
  secrets: 'sent',
  budget: 'extended',
} as const;
const read = { ...call, readable: true } as const;
const IN_SESSION = 'Works only in a hook, tool or command that runs for a session, before its handler answers.';
/** A hook on the message may wait for a model, which does not count towards its budget. */
const JUDGED_MESSAGE_TIMEOUT_MS = call.timeoutMs + limits.chainBudgetMs + MODEL_TIMEOUT_MS;
const path = z.string().min(1).max(4096);
const key = z.string().min(1).max(512);
const noResult = z.undefined();

export const hostCalls = {
  'secrets.get': {
    ...read,
    capability: null,
    audit: 'none',
    doc: 'Returns the value of a secret that the frontmatter declares, or null if the user has not set it. For a secret with a `use`, or a value that the user gave for a use, it returns a handle: a string that `host.http.fetch` replaces in headers, and `webhooks.verify…` accepts as the secret.',
    params: { name: p.surfaceName },
    result: z.string().nullable(),
  },
  'secrets.verify': {
    ...read,
    capability: null,
    doc: 'Verifies a signature with a secret of which the plugin has a handle. `webhooks.verify…` call it.',
    params: {
      scheme: p.signatureScheme,
      headers: boundedRecord(z.string().max(p.HEADER_MAX_CHARS), p.HEADERS_MAX),
      bodyBytes: p.bytes,
      handle: z.string().min(1).max(500),
      options: z.object({ toleranceSeconds: z.number().optional() }).optional(),
      receivedAt: p.timestamp.max(p.TIME_MAX_CHARS).optional(),
    },
    result: z.boolean(),
  },
  'assets.read': {
    ...read,
    capability: null,
    audit: 'none',
    maxBytes: 3 * MIB,
    doc: 'Returns the bytes of a file below `assets/` of the package: `cities.bin` is the file `assets/cities.bin`. At most 2 MiB.',
    params: { path },
    result: p.bytes,
  },
  'assets.readText': {
    ...read,
    capability: null,
    audit: 'none',
    maxBytes: 3 * MIB,
    doc: 'Returns the text of a UTF-8 file below `assets/` of the package. At most 2 MiB.',
    params: { path },
    result: z.string(),
  },
  'session.get': {
    ...read,
    capability: 'session',
    doc: `Returns the session that the handler runs for. ${IN_SESSION}`,
    params: {},
    result: z.object({ id: p.id, agentId: p.id, channelId: p.id.nullable(), createdAt: p.timestamp }),
  },
  'session.messages': {
    ...read,
    capability: 'session',
    doc: `Returns the newest messages of the session, oldest first. Default: ${SESSION_MESSAGES_DEFAULT}. Fewer than the limit if they have 4 MiB of JSON together, or less with much data. ${IN_SESSION}`,
    maxBytes: 4 * MIB,
    params: { limit: z.number().int().min(1).max(1000).optional() },
    result: z.array(p.transcriptMessage),
  },
  'session.post': {
    ...call,
    budget: 'counted',
    secrets: 'masked',
    capability: 'session',
    timeoutMs: JUDGED_MESSAGE_TIMEOUT_MS,
    doc: `Adds a message to the session as the plugin. \`middleware.outboundMessage\` of the other plugins runs first. ${IN_SESSION}`,
    params: { text: p.text.min(1) },
    result: z.object({ id: p.id }),
  },
  'session.notice': {
    ...call,
    secrets: 'masked',
    capability: 'session',
    doc: `Adds a notice to the transcript. Models do not see it. ${IN_SESSION}`,
    params: { text: p.text.min(1) },
    result: z.object({ id: p.id }),
  },
  'agents.list': {
    ...read,
    capability: 'agents',
    doc: 'Returns the agents of the account.',
    params: {},
    result: z.array(p.agentRecord),
  },
  'agents.create': {
    ...call,
    secrets: 'masked',
    capability: 'agents',
    doc: 'Creates an agent. It is removed together with this installation.',
    params: { agent: p.agentFields },
    result: p.agentRecord,
  },
  'agents.update': {
    ...call,
    secrets: 'masked',
    capability: 'agents',
    doc: 'Changes an agent that this installation created.',
    params: { agentId: p.id, changes: p.agentFields.partial() },
    result: p.agentRecord,
  },
  'agents.remove': {
    ...call,
    capability: 'agents',
    doc: 'Removes an agent that this installation created.',
    params: { agentId: p.id },
    result: noResult,
  },
  'agents.send': {
    ...call,
    budget: 'counted',
    secrets: 'masked',
    capability: 'agents',
    timeoutMs: JUDGED_MESSAGE_TIMEOUT_MS + limits.chainBudgetMs,
    doc: 'Sends a message to an agent. `middleware.agentMessage` and `middleware.inboundMessage` run first.',
    params: { agentId: p.id, text: p.text.min(1) },
    result: z.object({ id: p.id }),
  },
  'models.list': {
    ...read,
    capability: 'models',
    doc: 'Returns the models that `host.llm.complete` can use.',
    params: {},
    result: z.array(p.model),
  },
  'llm.complete': {
    ...call,
    capability: 'llm',
    budget: 'paused',
    timeoutMs: MODEL_TIMEOUT_MS,
    doc: 'Calls a language model and returns the complete response.',
    params: { request: p.completionRequest },
    result: p.completion,
  },
  'workspace.list': {
    ...read,
    capability: 'workspace',
    doc: `Returns the files below a directory of the workspace, also in folders of it. Throws if there are more than ${limits.workspaceListFiles.toLocaleString('en')}. Of a missing directory, the error says \`no such file or directory\`.`,
    params: { path: path.optional() },
    result: z.array(p.fileEntry),
  },
  'workspace.read': {
    ...read,
    capability: 'workspace',
    doc: 'Returns the bytes of a file.',
    params: { path },
    result: p.bytes,
  },
  'workspace.readText': {
    ...read,
    capability: 'workspace',
    doc: 'Returns the text of a UTF-8 file. Of a missing file, the error says `no such file or directory`.',
    params: { path },
    result: z.string(),
  },
  'workspace.write': {
    ...call,
    capability: 'workspace',
    doc: 'Writes a file of at most 1 MiB and creates its directories.',
    params: { path, content: z.union([z.string(), p.bytes]) },
    result: noResult,
  },
  'workspace.remove': { ...call, capability: 'workspace', doc: 'Removes a file.', params: { path }, result: noResult },
  'media.put': {
    ...call,
    secrets: 'refused',
    capability: 'media',
    doc: 'Stores a media file of at most 2 MiB and returns its id. The same bytes have the same id.',
    params: { content: p.bytes, name: z.string().max(255).optional() },
    result: z.object({ id: p.id, mediaType: z.string(), sizeBytes: z.number().int() }),
  },
  'media.get': {
    ...read,
    capability: 'media',
    maxBytes: 3 * MIB,
    doc: 'Returns the bytes and the media type of a file.',
    params: { mediaId: p.id },
    result: z.object({ content: p.bytes, mediaType: z.string() }),
  },
  'media.remove': {
    ...call,
    capability: 'media',
    doc: 'Removes a media file.',
    params: { mediaId: p.id },
    result: noResult,
  },
  'ssh.hosts': {
    ...read,
    capability: 'ssh',
    doc: 'Returns the SSH hosts that the user added, and those that the operator configured for the account.',
    params: {},
    result: z.array(p.sshHost),
  },
  'ssh.run': {
    ...call,
    capability: 'ssh',
    budget: 'paused',
    timeoutMs: 600 * SECOND,
    doc: 'Runs a command over SSH. The three SSH hooks run for it.',
    params: { hostId: p.id, command: z.string().min(1).max(131_072), options: p.sshOptions.optional() },
    result: p.sshOutput,
  },
  'storage.get': {
    ...read,
    capability: 'storage',
    doc: 'Returns a stored value, or null.',
    params: { key },
    result: p.json.nullable(),
  },
  'storage.set': {
    ...call,
    secrets: 'refused',
    capability: 'storage',
    doc: 'Stores a JSON value of at most 1 MiB.',
    params: { key, value: p.json },
    result: noResult,
  },
  'storage.delete': { ...call, capability: 'storage', doc: 'Deletes a value.', params: { key }, result: noResult },
  'storage.list': {
    ...read,
    capability: 'storage',
    doc: `Returns the stored keys that start with a prefix. Throws if there are more than ${limits.storageListKeys.toLocaleString('en')}.`,
    params: { prefix: z.string().max(512).optional() },
    result: z.array(z.string()),
  },
  'http.fetch': {
    ...call,
    budget: 'counted',
    capability: 'http',
    timeoutMs: MODEL_TIMEOUT_MS,
    maxBytes: 2 * MIB,
    doc: 'Sends an HTTP request to a declared host. Without `timeoutMs`, which is at most 120,000, the response must be complete within 30 s; within 120 s if `chat` of a provider makes the call.',
    params: { url: z.url().max(8192), init: p.httpInit.optional() },
    result: p.httpAnswer,
  },
} as const satisfies Record<string, HostRow<CapabilityMember>>;
export type HostCallName = keyof typeof hostCalls;
/** How long host calls may pause the budget of one call of a handler in all: as long as the longest of them takes. Milliseconds. */
export const PAUSED_MAX_MS = Math.max(
  ...Object.values(hostCalls).map((row) => (row.budget === 'paused' ? row.timeoutMs : 0)),
);

// Wire
export const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];
/** The handler to run: the row's key, and the registered name where the row has many. */
export const target = z.object({
  kind: z.enum(['hook', 'event', 'tools', 'commands', 'providers', 'channel']),
  name: z.string(),
});
export type Target = z.infer<typeof target>;

/**
 * JSON-RPC methods between supervisor and child. A request gets a response, a notification does not. The supervisor cancels
 * an `invoke` with `$/cancelRequest` and a `reason`, `deadline` or `caller`; the child still responds to it.
 */
export const control = {
  /** Sent once, when the realm is locked down and the child reads frames. */
  ready: { by: 'child', form: 'notification', params: z.object({ node: z.string() }) },
  /** Evaluates the bundle. */
  load: {
    by: 'supervisor',
    form: 'request',
    params: z.object({
      bundle: z.string(),
      /** Name of the bundle in stack traces. */
      sourceName: z.string(),
      /** Names of the granted host calls, such as `llm.complete`. */
      members: z.array(z.string()),
      settings: p.settings,
      secretNames: z.array(z.string()),
      /** The registrations of the version at publish. Null for introspection, which also checks the schemas of tools. */
      expected: registrations.nullable(),
    }),
    result: z.union([
      z.object({
        outcome: z.literal('loaded'),
        registrations,
        /** Stack trace of every assignment, known or not. */
        places: boundedRecord(z.string(), REGISTRATIONS_MAX),
        schemaFaults: z.array(schemaFault).max(REGISTRATIONS_MAX),
      }),
      z.object({ outcome: z.literal('failed'), message: z.string(), stack: z.string() }),
    ]),
  },
  invoke: {
    by: 'supervisor',
    form: 'request',
    params: z.object({
      target,
      invocationId: p.id,
      context: z.record(z.string(), z.unknown()),
      deadlineMs: z.number(),
      /** Whether the caller wants the deltas of the answer. */
      wantsDeltas: z.boolean().optional(),
    }),
    result: z.union([
      z.object({ outcome: z.literal('answered'), answer: z.unknown() }),
      z.object({ outcome: z.literal('cancelled'), reason: p.reason }),
      /** For tools only: the handler did not run. */
      z.object({ outcome: z.literal('invalid_arguments'), errors: z.array(argumentFault).min(1).max(20) }),
      z.object({ outcome: z.literal('failed'), message: z.string(), stack: z.string() }),
    ]),
  },
  /** The handler of an invocation begins while those of others have not answered: it waits for none of them. */
  started: { by: 'child', form: 'notification', params: z.object({ invocationId: p.id }) },
  /** A delta of an answer, before the response to its `invoke`. The token is the id of the invocation. */
  '$/progress': { by: 'child', form: 'notification', params: z.object({ token: p.id, value: z.unknown() }) },
  /** One delta of an invocation was passed on: the child may send another. */
  deltaRead: { by: 'supervisor', form: 'notification', params: z.object({ invocationId: p.id }) },
  /** Answered after a full turn of the event loop: the code that loading left behind has run, and does not block. */
  health: { by: 'supervisor', form: 'request', params: z.object({}), result: z.object({ healthy: z.literal(true) }) },
  configure: {
    by: 'supervisor',
    form: 'notification',
    params: z.object({ settings: p.settings, members: z.array(z.string()) }),
  },
  /**
   * The invocation is null for a call outside a running handler. `http.openBody`, `http.readBody` and `http.closeBody` are
   * `fetch`'s, and no members of `host`.
   */
  hostCall: {
    by: 'child',
    form: 'request',
    params: z.object({ member: z.string(), invocationId: p.id.nullable(), args: z.array(z.unknown()) }),
    result: z.object({ value: z.unknown() }),
  },
  log: {
    by: 'child',
    form: 'notification',
    params: z.object({
      level: z.enum(logLevels),
      message: z.string(),
      data: z.unknown().optional(),
      invocationId: p.id.nullable(),
      truncated: z.boolean(),
    }),
  },
} as const;
