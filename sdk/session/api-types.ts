/** Request and response types of the session API, derived from the protocol rows. */
import type { z } from 'zod';
import type * as p from '../contract/payloads.ts';
import type { hooks } from '../contract/protocol.ts';

type Hooks = typeof hooks;
/** The names of the hooks that a runtime can run, without the prefix: `systemPrompt` for `middleware.systemPrompt`. */
export type HookName = {
  [Key in keyof Hooks]: Key extends `middleware.${infer Short}` ? Short : never;
}[keyof Hooks];
/** The fields of a hook's context that the runtime sends. */
export type HookContext<Name extends HookName> = z.input<Hooks[`middleware.${Name}`]['context']>;
export type Trigger = z.infer<typeof p.trigger>;
export type Json = z.infer<typeof p.json>;

export interface TraceLink {
  readonly installationId: string;
  readonly slug: string;
  /** Whether the operation stops when this plugin does not run or fails. */
  readonly required: boolean;
  readonly ms: number;
  readonly outcome: string;
  readonly reason?: string;
}
export interface HookAnswer<Name extends HookName> {
  /** `cancel`: a plugin cancelled the operation, or a required plugin did not run. Do not continue with it. */
  readonly action: 'continue' | 'cancel';
  /** The context with all changes of the chain. */
  readonly context: z.output<Hooks[`middleware.${Name}`]['context']>;
  readonly reason: string | null;
  /** Slug of the plugin that cancelled the operation, or that is required and did not run. */
  readonly cancelledBy: string | null;
  readonly trace: readonly TraceLink[];
}
export interface Summary {
  /** `cancel`: a required plugin gave no usable summary. Do not compact, and do not run the turn. */
  readonly action: 'continue' | 'cancel';
  readonly reason: string | null;
  readonly cancelledBy: string | null;
  readonly trace: readonly TraceLink[];
  /** Null if `source` is `builtin` or `action` is `cancel`. */
  readonly summary: string | null;
  /** `builtin`: run the runtime's own summarizer. */
  readonly source: 'plugin' | 'builtin';
  readonly notice: string | null;
}
export interface SessionRecord {
  readonly id: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly channelId: string | null;
  /** The runtime's own name of the session. */
  readonly key: string | null;
  /** Groups of the host's own tools that the session offers. */
  readonly hostTools: readonly HostToolGroup[];
  /** Whether the session refuses messages that no hook judged. */
  readonly strict: boolean;
  readonly createdAt: string;
  readonly clearedAt: string | null;
}
export interface NewSession {
  readonly agentId: string;
  /** Set when the session starts: a known `key` does not change it. Default: the agent's id. */
  readonly agentName?: string;
  readonly channelId?: string | null;
  /** Your own name of the session. The same key opens the same session, also after a restart. Default: a new session. */
  readonly key?: string | null;
  /** Groups of the host's own tools that the session offers: `todo` is `todo__create` and the others of its prefix. If a session with this `key` exists, they replace its groups. Default: none, or those of that session. */
  readonly hostTools?: readonly HostToolGroup[];
  /** Tools that you perform yourself. If a session with this `key` exists, they replace its tools. */
  readonly tools?: readonly OwnTool[];
  /** Whether the session refuses messages that no hook judged. It cannot be switched off again. */
  readonly strict?: boolean;
}
/** A tool that the runtime performs. Plugins judge its calls and results like those of every other tool. */
export interface OwnTool {
  /** Must not contain `__`, which is for the tools of plugins. */
  readonly name: string;
  readonly description?: string;
  /** JSON Schema 2020-12 of the arguments, for the model. Check them yourself. */
  readonly parameters?: Readonly<Record<string, Json>>;
  /** Whether a call may run again after a crash of the runtime. Default: no; its result then says that it may have run. */
  readonly isRepeatable?: boolean;
  /** Performs a call of `turn.call`. Returns a text, a JSON value or a tool result; an error is a failed result. */
  readonly run?: (args: never, call: { readonly callId: string; readonly signal?: AbortSignal }) => unknown;
}
/** A judged call of a tool of the runtime. */
export interface OwnCall {
  readonly callId: string;
  readonly name: string;
  /** The arguments after the plugins' changes. */
  readonly arguments: Json;
  /** Whether an earlier attempt received this call, and so may have performed it. */
  readonly isRepeated: boolean;
}
/** A group of tools that the host itself performs. */
export type HostToolGroup = 'todo' | 'notify' | 'agent' | 'ssh';
export interface NewTodo {
  /** Your own id. A request with the id of an existing to-do returns that to-do. Default: a random id. */
  readonly id?: string;
  readonly title: string;
  readonly notes?: string;
  readonly dueAt?: string | null;
  /** The agent who should do it. Default: none. */
  readonly assigneeAgentId?: string | null;
}
export interface TodoChanges extends Partial<Omit<NewTodo, 'id'>> {
  /** `true` completes the to-do, `false` reopens it. */
  readonly done?: boolean;
  /** The name that plugins see as the one who completes it. Default: `user` if the trigger is `user`, otherwise the agent. */
  readonly by?: string;
}
/** A to-do of the account. All agents of the account share its to-dos. */
export interface Todo extends Required<NewTodo> {
  readonly done: boolean;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}
export interface NewMessage {
  /** Your own id. A message with a known id is not added again. Default: a random id. */
  readonly id?: string;
  readonly role: z.infer<typeof p.role>;
  readonly text: string;
  readonly data?: Readonly<Record<string, Json>>;
}
export type Judgement = z.infer<typeof p.judgement>;
export interface TranscriptMessage extends z.infer<typeof p.transcriptMessage> {
  /** The judgement of the plugins. Absent: no hook judged the message. */
  readonly judgement?: Judgement;
}
export type Attachment = z.infer<typeof p.attachment>;
/** A stored file, to which the `mediaId` of an attachment refers. */
export interface MediaFile {
  readonly id: string;
  readonly name: string | null;
  /** Detected from the bytes. */
  readonly mediaType: string;
  readonly sizeBytes: number;
}
export type Completion = z.infer<typeof p.completion>;
export type CompletionRequest = z.input<typeof p.completionRequest>;
export type ToolResult = z.infer<typeof p.toolResult> & {
  /** False: a required plugin did not run, so the tool did not. The same call may pass later. */
  readonly isFinal?: false | undefined;
};

interface Offered {
  /** `<slug>__<name>` */
  readonly name: string;
  readonly installationId: string;
  readonly slug: string;
}
/** An installed plugin that a hook runs. */
export interface HookLink extends Omit<Offered, 'name'> {
  /** The name without the prefix, such as `outboundMessage`. */
  readonly name: HookName;
  /** Whether the operation stops when this plugin does not run or fails. */
  readonly required: boolean;
}
/** Shows whether the runtime of a session runs a hook. */
export interface HookCoverage {
  readonly name: HookName | 'compaction';
  /** Number of runs. 0: the runtime never ran it, or it is `compaction` and no plugin summarizes. */
  readonly asked: number;
  readonly cancelled: number;
  readonly lastAt: string | null;
  /** Counts of the messages in the transcript that this hook judges. Null: this hook judges no messages. */
  readonly messages: { readonly judged: number; readonly total: number } | null;
}
export interface Tool extends Omit<Offered, 'installationId'> {
  /** Null: a tool of the host, whose group is in `slug`, or a tool of the runtime. */
  readonly installationId: string | null;
  readonly performedBy: 'plugin' | 'host' | 'runtime';
  readonly description: string;
  /** JSON Schema 2020-12 of the arguments. */
  readonly parameters: Readonly<Record<string, Json>>;
}
export interface Command extends Offered {
  readonly description: string;
  readonly kind: 'prompt' | 'code';
}
export interface Skill extends Offered {
  readonly description: string;
}
export interface SkillText extends Skill {
  readonly text: string;
  readonly resources: readonly { readonly path: string; readonly sizeBytes: number }[];
}
export interface Provider extends Offered {
  readonly models: readonly z.infer<typeof p.model>[];
}
export interface NewReminder {
  /** Your own id. A request with the id of an existing reminder returns that reminder. Default: a random id. */
  readonly id?: string;
  readonly text: string;
  /** The first time, ISO 8601 with an offset. */
  readonly at: string;
  /** An RRULE of RFC 5545 for the times after the first. Default: once. */
  readonly repeat?: string | null;
  /** The IANA time zone in which the rule is evaluated. Default: `UTC`. */
  readonly zone?: string;
  /** `agent`: the agent receives it as a message to work on. Default: `user`, who receives it through the channel. */
  readonly to?: string;
}
export interface Reminder extends Required<Omit<NewReminder, 'at'>> {
  readonly startsAt: string;
  /** Null: the reminder is over. */
  readonly nextAt: string | null;
  /** Number of times left, including the next one. Null: no end. */
  readonly remaining: number | null;
  readonly lastAt: string | null;
  readonly lastOutcome: 'delivered' | 'cancelled' | 'failed' | null;
  readonly createdAt: string;
}
/** A message that was sent to another agent. */
export interface SentMail {
  /** The id of the message in the receiver's transcript. Open a turn there with this id. */
  readonly messageId: string;
  /** The session of the receiver. */
  readonly sessionId: string;
  readonly toAgentId: string;
}
export interface SshCommand {
  /** The id of a host of the account. */
  readonly host: string;
  /** A line for the shell of the host. */
  readonly command: string;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly input?: string;
}
/** The result of a command, after the plugins' changes. */
export interface SshResult {
  /** The id that the three SSH hooks received. */
  readonly commandId: string;
  readonly host: { readonly id: string; readonly name: string };
  /** Null: a signal ended the command. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly durationMs: number;
}
/** An SSH host that the account added. Its key or password is never shown. */
export interface OwnSshHost {
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly user: string;
  /** The pinned keys. Empty: Bulkhead sends the host nothing. */
  readonly hostKeys: readonly string[];
  /** The login method. */
  readonly login: 'key' | 'password';
  /** Time of the last test since the last change. Null: not tested since. */
  readonly testedAt: string | null;
  /** Why the last test failed. Null: it passed, or there was no test. */
  readonly testFault: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}
/** The result of a test of an SSH host. */
export interface SshTest {
  readonly ok: boolean;
  /** The key that the host presented. Null: the host was not reached. */
  readonly hostKey: string | null;
  readonly fault: string | null;
}
/** The outcome of a step of a turn. */
export interface Verdict {
  /** `cancel`: the step did not happen. Do not continue with it. */
  readonly action: 'continue' | 'cancel';
  readonly reason: string | null;
  /** Slug of the plugin that cancelled the step, or that is required and did not run. */
  readonly cancelledBy: string | null;
  /** False: a required plugin did not run, so the same step may pass later. */
  readonly isFinal: boolean;
}
export interface NewTurn {
  /** Your own id of the turn and of its message. A repeated request with the same id returns the same turn. Default: a random id. */
  readonly id?: string;
  /** The name of the sender that plugins see. Default: `user`. */
  readonly from?: string | undefined;
  /** Default: the text of the message with this id in the transcript, such as a message of a channel. */
  readonly text?: string;
  readonly attachments?: readonly Attachment[];
  readonly trigger: Trigger;
  /** Default: the instructions of the account's agent. */
  readonly systemPrompt?: string;
  readonly model?: string;
  /** Duration of the lease: after each step, the turn belongs to this runtime for this time. Default: 120. */
  readonly leaseSeconds?: number;
  /** Whether the response includes the prompt, which saves a request. Default: false. */
  readonly prompt?: boolean | Pick<PromptRequest, 'compactAfter' | 'keep'>;
}
export interface TurnRecord extends Verdict {
  readonly id: string;
  readonly sessionId: string;
  readonly state: 'judging' | 'open' | 'vetoed' | 'ended' | 'cleared';
  readonly trigger: Trigger;
  /** The message after the plugins' changes. Null: a plugin cancelled it, or it was removed. */
  readonly message: {
    readonly id: string;
    readonly from: string;
    readonly text: string;
    readonly attachments: readonly Attachment[];
    readonly judgement: Judgement | null;
  } | null;
  readonly lease: { readonly runtime: string; readonly until: string };
  readonly openedAt: string;
  readonly endedAt: string | null;
  readonly replyId: string | null;
}
export interface OpenedTurn extends TurnRecord {
  /** Present if you requested it and the turn is open. */
  readonly prompt?: Prompt;
}
export interface TurnCall {
  readonly callId: string;
  readonly name: string;
  /**
   * `performing`: the runtime performs the call and has not sent the result. `interrupted`: the supervisor stopped while the
   * tool ran, and the call does not run again under this id.
   */
  readonly state: 'running' | 'performing' | 'answered' | 'interrupted';
  /** The arguments after the plugins' changes, if the runtime performs the call. Otherwise null. */
  readonly arguments: Json;
  readonly result: ToolResult | null;
  readonly startedAt: string;
  readonly endedAt: string | null;
}
export interface TurnDetail {
  readonly turn: TurnRecord;
  readonly calls: readonly TurnCall[];
  readonly outputs: readonly {
    readonly id: string;
    readonly state: 'open' | 'passed' | 'vetoed';
    /** Number of pieces received. 0: the text was sent whole. */
    readonly pieces: number;
    readonly text: string | null;
    readonly judgement: Judgement | null;
  }[];
  /** The cursor of the next calls and outputs. Null: there are no more, as in every answer of `look`. */
  readonly nextCursor: string | null;
}
/** A message that waits for an answer. */
export interface WaitingMessage {
  readonly sessionId: string;
  readonly agentId: string;
  readonly message: TranscriptMessage;
}
export interface PromptRequest {
  /** Default: the system prompt with which the turn was opened. */
  readonly systemPrompt?: string;
  readonly model?: string;
  /** Number of messages beyond which a plugin summarizes the older ones. Default: never. */
  readonly compactAfter?: number | undefined;
  /** Number of recent messages that a summary does not replace. Default: 4. */
  readonly keep?: number | undefined;
}
/** The input of a model call. If `action` is `cancel`, all fields of it are empty. */
export interface Prompt extends Verdict {
  readonly turnId: string;
  readonly systemPrompt: string;
  readonly model: string;
  /** A summary is a message with the role `system`. */
  readonly messages: readonly TranscriptMessage[];
  readonly isTruncated: boolean;
  readonly notice: string | null;
  readonly tools: readonly Tool[];
  /**
   * The way in which plugins judge the agent's texts now. `none`: show each text as the model writes it. `pieces`: send pieces,
   * such as sentences, and show each one when its response arrives. `whole`: show nothing before the end of the text.
   */
  readonly outbound: 'none' | 'pieces' | 'whole';
}
export interface TurnOutput extends Verdict {
  readonly id: string;
  readonly state: 'open' | 'passed' | 'vetoed';
  /** The text that may be shown now, after the text that was shown before. */
  readonly show: string;
  readonly attachments: readonly Attachment[];
  readonly judgement: Judgement | null;
}
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}
/** A message or a notice that was added to a transcript. */
export interface Added {
  readonly type: 'message' | 'notice';
  /** Pass it as `after` to continue from here. */
  readonly position: string;
  readonly sessionId: string;
  readonly message: TranscriptMessage;
}
/** An event in the sessions of an account. The `data.kind` of a notice names its subject. */
export type SessionEvent =
  | Added
  /** The stream begins, or continues after a lost connection. `gap`: events may have been missed, so read the sessions again. */
  | { readonly type: 'open'; readonly position: string; readonly gap: boolean }
  | {
      readonly type: 'cleared' | 'deleted';
      readonly position: string;
      readonly sessionId: string;
      readonly agentId: string;
      readonly at: string;
    }
  /** The list of tools changed: request it again. Without a session, the plugins of the account changed. */
  | {
      readonly type: 'tools';
      readonly position: string;
      readonly sessionId?: string;
      readonly agentId?: string;
      readonly at?: string;
    };
/** Selects sessions. Default: all of the account. */
export interface EventFilter {
  readonly sessionId?: string;
  readonly agentId?: string;
}
