/**
 * The one declaration of everything that crosses a border of Bulkhead: hooks, compaction, events, registered surfaces,
 * host calls, and the control messages between supervisor and child. Types, validation, grants, limits, the author's
 * globals, the reference, catalog sentences and metric labels are derived from these rows.
 *
 * Adding a host call: one row here, one handler in `supervisor/host/`, one example. Adding a hook: one row and its call site.
 */
import { z } from 'zod';
import { limits, MIB, SECOND } from './limits.ts';
import * as p from './payloads.ts';
import type { CapabilityRow, EventRow, HookRow, HostRow, Reach, SurfaceRow } from './rows.ts';

// ----------------------------------------------------------------------------------------------------------------- hooks
/** Present in every hook context, set by the supervisor; `signal` is added inside the child and aborts at the deadline. */
export const hookBase = z.object({
  hook: z.string(),
  invocationId: p.id,
  settings: p.settings,
  agent: p.agent,
  session: p.sessionRef,
  trigger: p.trigger,
  at: p.moment,
  deadlineAt: p.moment,
});

const LINK_BUDGET_MS = 5 * SECOND;
const veto = {
  since: '0.1.0',
  origin: 'ours',
  cancellable: true,
  onFailure: 'skip',
  budgetMs: LINK_BUDGET_MS,
} as const;
const guard = { ...veto, onFailure: 'cancel' } as const;
const patch = <const P extends readonly string[]>(...patchable: P) => ({ kind: 'patch', patchable }) as const;
const TODO = { id: 't1', title: 'Buy milk', notes: '', dueAt: null, assigneeAgentId: null, done: false };
const NOTIFY = { text: 'Stand-up', at: '2026-01-05T09:00:00Z', repeat: null, to: 'team' };

export const hooks = {
  'middleware.systemPrompt': {
    doc: 'Runs before every model call. Returns the string that replaces the assembled system prompt.',
    since: '0.1.0',
    origin: 'spec',
    reach: 'Reads and rewrites the system prompt of your agents before every model call.',
    risk: 'medium',
    context: z.object({ systemPrompt: p.text, model: z.string().max(200) }),
    answers: { kind: 'replace', field: 'systemPrompt', schema: z.string().min(1).max(p.TEXT_MAX_CHARS) },
    cancellable: false,
    onFailure: 'skip',
    budgetMs: 3 * SECOND,
    example: { context: { systemPrompt: 'Be brief.', model: 'any' }, answer: 'Be brief. Use metric units.' },
  },
  'compaction.summarize': {
    doc: 'Replaces the built-in summarizer. Returns one summary; a blank or oversized one falls back to the built-in.',
    since: '0.1.0',
    origin: 'spec',
    reach: 'Reads whole conversations when they are compacted and writes the summary that replaces them.',
    risk: 'high',
    context: z.object({
      messages: z.array(p.transcriptMessage).max(100_000),
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
    ...veto,
    doc: 'Runs when a message for an agent arrives, before the agent sees it.',
    reach: 'Reads, changes and can stop every message that reaches your agents.',
    risk: 'high',
    context: z.object({ message: p.inbound }),
    answers: patch('message.text', 'message.attachments'),
    example: {
      context: { message: { id: 'm1', from: 'ann', text: 'hello', attachments: [] } },
      answer: { message: { text: 'hello!' } },
    },
  },
  'middleware.outboundMessage': {
    ...veto,
    doc: 'Runs when an agent has written a message, before it leaves.',
    reach: 'Reads, changes and can stop every message that your agents send.',
    risk: 'high',
    context: z.object({ message: p.outbound, target: z.string().max(500) }),
    answers: patch('message.text', 'message.attachments'),
    example: {
      context: { message: { id: 'm2', text: 'hi', attachments: [] }, target: 'ann' },
      answer: { message: { text: 'Hi.' } },
    },
  },
  'middleware.agentMessage': {
    ...veto,
    doc: 'Runs when one agent writes to another.',
    reach: 'Reads, changes and can stop the messages your agents send each other.',
    risk: 'high',
    context: z.object({ fromAgentId: p.id, toAgentId: p.id, message: z.object({ text: p.text }) }),
    answers: patch('message.text'),
    example: {
      context: { fromAgentId: 'a1', toAgentId: 'a2', message: { text: 'ping' } },
      answer: { message: { text: 'ping?' } },
    },
  },
  'middleware.todoCreate': {
    ...veto,
    doc: 'Runs before a to-do is created.',
    reach: 'Reads, changes and can stop new to-dos.',
    risk: 'low',
    context: z.object({ todo: p.newTodo }),
    answers: patch('todo.title', 'todo.notes', 'todo.dueAt'),
    example: {
      context: { todo: { title: 'Buy milk', notes: '', dueAt: null, assigneeAgentId: null } },
      answer: { todo: { title: 'Buy oat milk' } },
    },
  },
  'middleware.todoUpdate': {
    ...veto,
    doc: 'Runs before a to-do is changed. `changes` holds only the fields that change; returning it replaces it whole.',
    reach: 'Reads, changes and can stop edits of to-dos.',
    risk: 'low',
    context: z.object({ before: p.todo, changes: p.newTodo.partial() }),
    answers: patch('changes'),
    example: { context: { before: TODO, changes: { notes: 'two' } }, answer: { changes: { notes: 'three' } } },
  },
  'middleware.todoComplete': {
    ...veto,
    doc: 'Runs before a to-do is marked as done.',
    reach: 'Sees completed to-dos and can stop their completion.',
    risk: 'low',
    context: z.object({ todo: p.todo, by: z.string().max(500) }),
    answers: patch(),
    example: { context: { todo: TODO, by: 'a1' }, answer: undefined },
  },
  'middleware.todoDelete': {
    ...veto,
    doc: 'Runs before a to-do is deleted.',
    reach: 'Sees deleted to-dos and can stop their deletion.',
    risk: 'low',
    context: z.object({ todo: p.todo }),
    answers: patch(),
    example: { context: { todo: TODO }, answer: undefined },
  },
  'middleware.notifySchedule': {
    ...veto,
    doc: 'Runs before a notification is scheduled.',
    reach: 'Reads, changes and can stop notifications that your agents schedule.',
    risk: 'medium',
    context: z.object({ notify: p.newNotify }),
    answers: patch('notify.text', 'notify.at'),
    example: { context: { notify: NOTIFY }, answer: { notify: { text: 'Stand-up in five' } } },
  },
  'middleware.notifyDeliver': {
    ...veto,
    doc: 'Runs before a scheduled notification is delivered.',
    reach: 'Reads, changes and can stop notifications when they are delivered.',
    risk: 'medium',
    context: z.object({ notify: z.object({ id: p.id, text: p.text, to: z.string().max(500) }) }),
    answers: patch('notify.text'),
    example: {
      context: { notify: { id: 'n1', text: 'Stand-up', to: 'team' } },
      answer: { notify: { text: 'Stand-up now' } },
    },
  },
  'middleware.sshCommand': {
    ...guard,
    doc: 'Runs before a command is run over SSH. A failing or late handler vetoes the command.',
    reach: 'Reads, changes and can stop the commands your agents run over SSH.',
    risk: 'high',
    context: z.object({
      host: p.sshHost,
      command: z.string().max(131_072),
      cwd: z.string().max(4096).nullable(),
      env: p.settings,
      timeoutMs: z.number().int(),
    }),
    answers: patch('command', 'cwd', 'env'),
    example: {
      context: { host: { id: 'h1', name: 'web' }, command: 'ls', cwd: null, env: {}, timeoutMs: 1000 },
      answer: { command: 'ls -l' },
    },
  },
  'middleware.sshCommandInput': {
    ...guard,
    doc: 'Runs before input is sent to a running SSH command. A failing or late handler vetoes the input.',
    reach: 'Reads, changes and can stop what your agents type into SSH commands.',
    risk: 'high',
    context: z.object({ commandId: p.id, data: p.text }),
    answers: patch('data'),
    example: { context: { commandId: 'c1', data: 'yes\n' }, answer: { data: 'no\n' } },
  },
  'middleware.sshCommandOutput': {
    ...veto,
    cancellable: false,
    doc: 'Runs when an SSH command has ended, before the agent sees its output.',
    reach: 'Reads and changes the output of the SSH commands your agents run.',
    risk: 'high',
    context: z.object({
      command: z.string(),
      exitCode: z.number().int().nullable(),
      stdout: z.string(),
      stderr: z.string(),
      durationMs: z.number(),
    }),
    answers: patch('stdout', 'stderr'),
    example: {
      context: { command: 'ls', exitCode: 0, stdout: 'key=1', stderr: '', durationMs: 3 },
      answer: { stdout: 'key=[redacted]' },
    },
  },
  'middleware.sessionClear': {
    ...veto,
    doc: 'Runs before a session is cleared.',
    reach: 'Sees when a session is cleared and can stop it.',
    risk: 'low',
    context: z.object({ reason: z.string().max(1000), messageCount: z.number().int(), by: z.string().max(500) }),
    answers: patch(),
    example: { context: { reason: 'fresh start', messageCount: 4, by: 'user' }, answer: undefined },
  },
} as const satisfies Record<string, HookRow>;
export type HookName = keyof typeof hooks;

// ---------------------------------------------------------------------------------------------------------------- events
const EVENT_BUDGET_MS = 30 * SECOND;
const lifecycle = { since: '0.1.0', risk: 'low', budgetMs: EVENT_BUDGET_MS, attempts: 8 } as const;
const sessionAgent = { sessionId: p.id, agentId: p.id };

export const events = {
  pluginInstalled: {
    ...lifecycle,
    origin: 'spec',
    doc: 'The plugin was installed, or its set-up was asked for again.',
    reach: 'Is told when it is installed.',
    data: z.object({ reason: z.enum(['install', 'rerun-setup']) }),
    example: { reason: 'install' },
  },
  pluginUninstalled: {
    ...lifecycle,
    origin: 'spec',
    attempts: 3,
    doc: 'The plugin is being uninstalled. Runs before the removal; after three attempts the removal goes on regardless.',
    reach: 'Is told when it is uninstalled.',
    data: z.object({ by: z.string() }),
    example: { by: 'user' },
  },
  pluginUpdated: {
    ...lifecycle,
    origin: 'ours',
    doc: 'The installation moved to another version, which is the one that is told.',
    reach: 'Is told when it is updated.',
    data: z.object({ fromVersionId: p.id, toVersionId: p.id, fromSemVer: z.string(), toSemVer: z.string() }),
    example: { fromVersionId: 'v1', toVersionId: 'v2', fromSemVer: '1.0.0', toSemVer: '1.1.0' },
  },
  sessionStarted: {
    ...lifecycle,
    origin: 'ours',
    doc: 'A session started: a runtime opened it, a channel’s first message did, or a message to an agent without one.',
    reach: 'Is told when a session of your agents starts.',
    data: z.object({ ...sessionAgent, channelId: p.id.nullable() }),
    example: { sessionId: 's1', agentId: 'a1', channelId: null },
  },
  sessionCleared: {
    ...lifecycle,
    origin: 'ours',
    doc: 'A session was cleared: its messages are gone, the session goes on.',
    reach: 'Is told when a session is cleared.',
    data: z.object({ ...sessionAgent, messageCount: z.number().int() }),
    example: { sessionId: 's1', agentId: 'a1', messageCount: 4 },
  },
  sessionDeleted: {
    ...lifecycle,
    origin: 'ours',
    doc: 'A session was deleted, by itself or with its agent, its channel or the installation that made either.',
    reach: 'Is told when a session is deleted.',
    data: z.object(sessionAgent),
    example: { sessionId: 's1', agentId: 'a1' },
  },
} as const satisfies Record<string, EventRow>;
export type EventName = keyof typeof events;
/** What an event handler receives: the same `id` on every attempt, so that it can be idempotent. */
export const eventEnvelope = z.object({
  id: p.id,
  type: z.string(),
  occurredAt: p.moment,
  attempt: z.number().int().positive(),
  installationId: p.id,
  pluginId: p.id,
  versionId: p.id,
  semVer: z.string(),
  data: z.record(z.string(), p.json),
});

// -------------------------------------------------------------------------------------------------------------- surfaces
const surface = { since: '0.1.0', budgetMs: 60 * SECOND, maxResultBytes: MIB } as const;
const callFrame = { invocationId: p.id, settings: p.settings, deadlineAt: p.moment };

/** Keyed by what a child is asked to run: `tools` is `tools.<name>.handler`, `providers` is `providers.<name>.chat`. */
export const surfaces = {
  tools: {
    ...surface,
    origin: 'spec',
    maxResultBytes: limits.toolResultBytes,
    doc: 'A tool in the agent’s tool list. Its arguments are checked against `parameters` before the handler runs. A string answer is taken as one text content.',
    reach: 'Offers the tool “{name}” to your agents.',
    risk: 'medium',
    registration: z.object({ description: p.description(4096), parameters: p.jsonSchema }),
    params: z.object({ ...callFrame, callId: p.id, session: p.sessionRef, agent: p.agent, arguments: p.json }),
    first: 'arguments',
    result: p.toolResult,
  },
  commands: {
    ...surface,
    origin: 'spec',
    doc: 'A command a user can run in a session. Returns the text to show or to send.',
    reach: 'Offers the command “/{name}”.',
    risk: 'low',
    registration: z.object({ description: p.description(1024) }),
    params: z.object({ ...callFrame, session: p.sessionRef, agent: p.agent, input: p.text }),
    first: 'input',
    result: z.object({ text: p.text }),
  },
  providers: {
    ...surface,
    origin: 'spec',
    budgetMs: 120 * SECOND,
    doc: 'A model provider: the models it offers, and `chat`, which answers one request.',
    reach: 'Offers its own models as provider “{name}” and reads the conversations sent to them.',
    risk: 'high',
    registration: z.object({ models: z.array(p.model).min(1).max(100) }),
    params: z.object({ ...callFrame, request: p.completionRequest }),
    first: 'request',
    result: p.completion,
  },
  'channel.receive': {
    ...surface,
    origin: 'spec',
    budgetMs: 30 * SECOND,
    doc: 'Receives one webhook request of a connected channel, at least once and in order. Returning nothing adds no message.',
    reach: 'Receives webhooks from outside and turns them into messages for your agents.',
    risk: 'high',
    registration: null,
    params: z.object({ ...callFrame, request: p.channelRequest }),
    first: 'request',
    result: z.object({ messages: z.array(p.channelMessage).max(100) }).optional(),
  },
  'channel.send': {
    ...surface,
    origin: 'ours',
    budgetMs: 30 * SECOND,
    doc: 'Delivers an agent’s reply to the vendor.',
    reach: 'Sends your agents’ replies to the connected vendor.',
    risk: 'medium',
    registration: null,
    params: z.object({ ...callFrame, message: p.channelReply }),
    first: 'message',
    result: z.undefined(),
  },
  'channel.handshake': {
    ...surface,
    origin: 'ours',
    budgetMs: 2_500,
    doc: 'Answers a vendor’s address verification at once. Returning nothing queues the request as usual.',
    reach: 'Answers vendor checks of its webhook address.',
    risk: 'low',
    registration: null,
    params: z.object({ ...callFrame, request: p.channelRequest }),
    first: 'request',
    result: p.handshakeAnswer.optional(),
  },
} as const satisfies Record<string, SurfaceRow>;
export type SurfaceName = keyof typeof surfaces;
/** `channel.handshakeOn`: which POST bodies are a handshake. */
export const handshakeOn = z.object({ jsonType: z.string().min(1).max(200) });

/** What a bundle registers, as introspection records it; at run time a child may register this and nothing more. */
export const registrations = z.object({
  hooks: z.array(z.string()),
  events: z.array(z.string()),
  tools: z.record(z.string(), surfaces.tools.registration),
  commands: z.record(z.string(), surfaces.commands.registration),
  providers: z.record(z.string(), surfaces.providers.registration),
  channel: z.object({
    receive: z.boolean(),
    send: z.boolean(),
    handshake: z.boolean(),
    handshakeOn: handshakeOn.nullable(),
  }),
});
export type Registrations = z.infer<typeof registrations>;

// ------------------------------------------------------------------------------------------------------ host capabilities
/** Declarable in the frontmatter as `host.<member>` or, where `read` is set, `host.<member>:read`. */
export const capabilities = {
  session: {
    reach: 'Reads the session’s transcript and posts into it.',
    risk: 'high',
    read: { reach: 'Reads the session’s transcript.', risk: 'medium' },
  },
  agents: {
    reach: 'Lists, creates, changes, removes and writes to your agents.',
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
    reach: 'Reads, stores and removes media files.',
    risk: 'medium',
    read: { reach: 'Reads media files.', risk: 'medium' },
  },
  llm: { reach: 'Asks your language models, at your cost.', risk: 'medium', read: null },
  ssh: {
    reach: 'Runs commands on your SSH hosts.',
    risk: 'high',
    read: { reach: 'Lists your SSH hosts.', risk: 'low' },
  },
  storage: {
    reach: 'Keeps up to 1 MiB of its own data.',
    risk: 'low',
    read: { reach: 'Reads its own stored data.', risk: 'low' },
  },
} as const satisfies Record<string, CapabilityRow>;
export type CapabilityMember = keyof typeof capabilities;
/** `host.http:<host or *.host>`: the only capability with a parameter. */
export const httpReach: Reach = { reach: 'Connects to {host}.', risk: 'medium' };

// ------------------------------------------------------------------------------------------------------------ host calls
const call = {
  since: '0.1.0',
  origin: 'ours',
  readable: false,
  timeoutMs: 10 * SECOND,
  maxBytes: MIB,
  audit: 'digest',
  pausesBudget: false,
} as const;
const read = { ...call, readable: true } as const;
const path = z.string().min(1).max(4096);
const key = z.string().min(1).max(512);
const nothing = z.undefined();

// biome-ignore format: one compact row a call reads as a table
export const hostCalls = {
  'secrets.get': {
    ...read, capability: null, audit: 'none', origin: 'ours',
    doc: 'The value of one of this installation’s own secrets, or null.', params: { name: p.surfaceName },
    result: z.string().nullable(),
  },
  'session.get': {
    ...read, capability: 'session', doc: 'The session this handler runs for.', params: { },
    result: z.object({ id: p.id, agentId: p.id, channelId: p.id.nullable(), createdAt: p.moment }),
  },
  'session.messages': {
    ...read, capability: 'session', doc: 'The newest messages of the session, oldest first.', maxBytes: 4 * MIB,
    params: { limit: z.number().int().min(1).max(1000).optional() }, result: z.array(p.transcriptMessage),
  },
  'session.post': {
    ...call, capability: 'session', doc: 'Adds a message to the session as the plugin.',
    params: { text: p.text.min(1) }, result: z.object({ id: p.id }),
  },
  'session.notice': {
    ...call, capability: 'session', doc: 'Shows a notice in the transcript that no model sees.',
    params: { text: p.text.min(1) }, result: z.object({ id: p.id }),
  },
  'agents.list': {
    ...read, capability: 'agents', doc: 'The account’s agents.', params: { }, result: z.array(p.agentRecord),
  },
  'agents.create': {
    ...call, capability: 'agents', doc: 'Creates an agent, which is removed with this installation.',
    params: { agent: p.agentFields }, result: p.agentRecord,
  },
  'agents.update': {
    ...call, capability: 'agents', doc: 'Changes an agent that this installation made.',
    params: { agentId: p.id, changes: p.agentFields.partial() }, result: p.agentRecord,
  },
  'agents.remove': {
    ...call, capability: 'agents', doc: 'Removes an agent that this installation made.', params: { agentId: p.id },
    result: nothing,
  },
  'agents.send': {
    ...call, capability: 'agents', doc: 'Writes a message to an agent; it passes `agentMessage` first.',
    params: { agentId: p.id, text: p.text.min(1) }, result: z.object({ id: p.id }),
  },
  'models.list': {
    ...read, capability: 'models', doc: 'The models that can be asked.', params: { }, result: z.array(p.model),
  },
  'llm.complete': {
    ...call, capability: 'llm', pausesBudget: true, timeoutMs: 120 * SECOND,
    doc: 'Asks a language model and waits for the whole answer.', params: { request: p.completionRequest },
    result: p.completion,
  },
  'workspace.list': {
    ...read, capability: 'workspace', doc: 'The files below a directory of the workspace.',
    params: { path: path.optional() }, result: z.array(p.fileEntry),
  },
  'workspace.read': {
    ...read, capability: 'workspace', doc: 'The bytes of a file.', params: { path }, result: p.bytes,
  },
  'workspace.readText': {
    ...read, capability: 'workspace', doc: 'The text of a file, UTF-8.', params: { path }, result: z.string(),
  },
  'workspace.write': {
    ...call, capability: 'workspace', doc: 'Writes a file, making its directories.',
    params: { path, content: z.union([z.string(), p.bytes]) }, result: nothing,
  },
  'workspace.remove': { ...call, capability: 'workspace', doc: 'Removes a file.', params: { path }, result: nothing },
  'media.put': {
    ...call, capability: 'media', doc: 'Stores bytes and answers their id; the same bytes have the same id.',
    params: { content: p.bytes, name: z.string().max(255).optional() },
    result: z.object({ id: p.id, mediaType: z.string(), sizeBytes: z.number().int() }),
  },
  'media.get': {
    ...read, capability: 'media', maxBytes: 3 * MIB, doc: 'The bytes and the type of a media file.', params: { mediaId: p.id },
    result: z.object({ content: p.bytes, mediaType: z.string() }),
  },
  'media.remove': {
    ...call, capability: 'media', doc: 'Removes a media file.', params: { mediaId: p.id }, result: nothing,
  },
  'ssh.hosts': {
    ...read, capability: 'ssh', doc: 'The SSH hosts the operator configured.', params: { },
    result: z.array(p.sshHost),
  },
  'ssh.run': {
    ...call, capability: 'ssh', pausesBudget: true, timeoutMs: 600 * SECOND,
    doc: 'Runs a command; the three SSH hooks run around it.',
    params: { hostId: p.id, command: z.string().min(1).max(131_072), options: p.sshOptions.optional() },
    result: p.sshOutput,
  },
  'storage.get': {
    ...read, capability: 'storage', doc: 'A stored value, or null.', params: { key }, result: p.json.nullable(),
  },
  'storage.set': {
    ...call, capability: 'storage', doc: 'Stores a JSON value.', params: { key, value: p.json }, result: nothing,
  },
  'storage.delete': { ...call, capability: 'storage', doc: 'Deletes a value.', params: { key }, result: nothing },
  'storage.list': {
    ...read, capability: 'storage', doc: 'The stored keys that start with a prefix.',
    params: { prefix: z.string().max(512).optional() }, result: z.array(z.string()),
  },
  'http.fetch': {
    ...call, capability: 'http', timeoutMs: 30 * SECOND, maxBytes: 2 * MIB,
    doc: 'One HTTP request to a declared host.', params: { url: z.url().max(8192), init: p.httpInit.optional() },
    result: p.httpAnswer,
  },
} as const satisfies Record<string, HostRow<CapabilityMember>>;
export type HostCallName = keyof typeof hostCalls;

// -------------------------------------------------------------------------------------------------------------- the wire
export const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];
/** What a child is asked to run: a row's key, and the registered name where the row has many. */
export const target = z.object({
  kind: z.enum(['hook', 'event', 'tools', 'commands', 'providers', 'channel']),
  name: z.string(),
});
export type Target = z.infer<typeof target>;

/** Messages between supervisor and child. `request`s are answered, `notice`s are not. */
// biome-ignore format: one compact row a call reads as a table
export const control = {
  /** Child → supervisor, once, when the realm is locked and the wire reads. */
  ready: { by: 'child', form: 'notice', params: z.object({ node: z.string() }) },
  /** Evaluates the bundle. `expected` null: introspection. `places`: the stack of every assignment, unknown names too. */
  load: {
    by: 'supervisor', form: 'request',
    params: z.object({ bundle: z.string(), sourceName: z.string(), members: z.array(z.string()), settings: p.settings, secretNames: z.array(z.string()), expected: registrations.nullable() }),
    result: z.union([z.object({ outcome: z.literal('loaded'), registrations, places: z.record(z.string(), z.string()) }), z.object({ outcome: z.literal('failed'), message: z.string(), stack: z.string() })]),
  },
  invoke: {
    by: 'supervisor', form: 'request',
    params: z.object({ target, invocationId: p.id, context: z.record(z.string(), z.unknown()), deadlineMs: z.number() }),
    result: z.union([z.object({ outcome: z.literal('answered'), answer: z.unknown() }), z.object({ outcome: z.literal('cancelled'), reason: p.reason }), z.object({ outcome: z.literal('failed'), message: z.string(), stack: z.string() })]),
  },
  /** The deadline has passed: the handler's signal aborts and the invocation is answered as failed. */
  abort: { by: 'supervisor', form: 'notice', params: z.object({ invocationId: p.id }) },
  /** Answered at once by a child whose code is merely slow, and never by one that hangs. */
  ping: { by: 'supervisor', form: 'request', params: z.object({}), result: z.null() },
  configure: {
    by: 'supervisor', form: 'notice', params: z.object({ settings: p.settings, members: z.array(z.string()) }),
  },
  hostCall: {
    by: 'child', form: 'request',
    params: z.object({ member: z.string(), invocationId: p.id.nullable(), args: z.array(z.unknown()) }),
    result: z.unknown(),
  },
  log: {
    by: 'child', form: 'notice',
    params: z.object({ level: z.enum(logLevels), message: z.string(), data: z.unknown().optional(), invocationId: p.id.nullable(), truncated: z.boolean() }),
  },
} as const;
