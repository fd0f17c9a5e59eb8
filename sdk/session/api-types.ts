/** Request and response types of the session API, derived from the protocol rows. */
import type { z } from 'zod';
import type * as p from '../contract/payloads.ts';
import type { hooks } from '../contract/protocol.ts';

type Hooks = typeof hooks;
/** The hooks that a runtime runs, without their prefix: `middleware.systemPrompt` is `systemPrompt`. */
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
  /** The runtime's own name of it. */
  readonly key: string | null;
  /** Groups of the host's own tools that it offers. */
  readonly hostTools: readonly HostToolGroup[];
  /** Whether it refuses messages that no hook judged. */
  readonly strict: boolean;
  readonly createdAt: string;
  readonly clearedAt: string | null;
}
export interface NewSession {
  readonly agentId: string;
  readonly agentName?: string;
  readonly channelId?: string | null;
  /** Your own name of the session: the same key opens the same session, also after a restart. Default: a new session. */
  readonly key?: string | null;
  /** Groups of the host's own tools that it offers, such as `todo` for `todo__create` and its like. Default: none. */
  readonly hostTools?: readonly HostToolGroup[];
  /** Tools that you perform yourself. Those of the session with this `key` are replaced. */
  readonly tools?: readonly OwnTool[];
  /** Whether the session refuses messages that no hook judged. It stays strict. */
  readonly strict?: boolean;
}
/** A tool that the runtime performs. Plugins judge its calls and results as those of all tools. */
export interface OwnTool {
  /** Without `__`, which is for the tools of plugins. */
  readonly name: string;
  readonly description?: string;
  /** JSON Schema 2020-12 of the arguments, for the model. Check them yourself. */
  readonly parameters?: Readonly<Record<string, Json>>;
  /** Whether a call may run again after a crash of the runtime. Default: its result is then that it may have run. */
  readonly isRepeatable?: boolean;
  /** Performs a call of `turn.call`. Returns a text, a JSON value or a tool result; an error is a failed result. */
  readonly run?: (args: never, call: { readonly callId: string; readonly signal?: AbortSignal }) => unknown;
}
/** A judged call of a tool of the runtime. */
export interface OwnCall {
  readonly callId: string;
  readonly name: string;
  /** As the plugins let them pass. */
  readonly arguments: Json;
  /** Whether another attempt got the call before. It may have performed it. */
  readonly isRepeated: boolean;
}
/** What the host itself does for agents. */
export type HostToolGroup = 'todo' | 'notify' | 'agent' | 'ssh';
export interface NewTodo {
  /** Your own id; the same id answers the same to-do. Default: a random id. */
  readonly id?: string;
  readonly title: string;
  readonly notes?: string;
  readonly dueAt?: string | null;
  /** The agent who should do it. Default: nobody in particular. */
  readonly assigneeAgentId?: string | null;
}
export interface TodoChanges extends Partial<Omit<NewTodo, 'id'>> {
  /** Completes or reopens it. */
  readonly done?: boolean;
  /** Who completes it, as plugins see it. Default: by the trigger. */
  readonly by?: string;
}
/** A to-do of the account. All its agents share them. */
export interface Todo {
  readonly id: string;
  readonly title: string;
  readonly notes: string;
  readonly dueAt: string | null;
  readonly assigneeAgentId: string | null;
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
  /** What the plugins made of it; left out: no hook judged it. */
  readonly judgement?: Judgement;
}
export type Attachment = z.infer<typeof p.attachment>;
/** A file behind an attachment's `mediaId`. */
export interface MediaFile {
  readonly id: string;
  readonly name: string | null;
  /** Detected from the bytes. */
  readonly mediaType: string;
  readonly sizeBytes: number;
}
export type Completion = z.infer<typeof p.completion>;
export type CompletionRequest = z.input<typeof p.completionRequest>;
export type ToolResult = z.infer<typeof p.toolResult>;

interface Offered {
  /** `<slug>__<name>` */
  readonly name: string;
  readonly installationId: string;
  readonly slug: string;
}
/** An installed plugin that a hook runs. */
export interface HookLink extends Omit<Offered, 'name'> {
  /** Without prefix: `outboundMessage`. */
  readonly name: HookName;
  /** Whether the operation stops when this plugin does not run or fails. */
  readonly required: boolean;
}
/** Whether the runtime of a session fires a hook. */
export interface HookCoverage {
  readonly name: HookName | 'compaction';
  /** How often it ran. 0: the runtime never fired it. */
  readonly asked: number;
  readonly cancelled: number;
  readonly lastAt: string | null;
  /** Counts of the messages in the transcript that this hook judges. Null: it judges none. */
  readonly messages: { readonly judged: number; readonly total: number } | null;
}
export interface Tool extends Omit<Offered, 'installationId'> {
  /** Null: a tool of the host, and `slug` is its group, or of the runtime. */
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
  /** Your own id; the same id answers the same reminder. Default: a random id. */
  readonly id?: string;
  readonly text: string;
  /** The first time, ISO 8601 with an offset. */
  readonly at: string;
  /** An RRULE of RFC 5545 for the times after the first. Default: once. */
  readonly repeat?: string | null;
  /** The time zone of IANA in which the rule counts. Default: `UTC`. */
  readonly zone?: string;
  /** `agent`: the agent gets it as a message to work on. Default: `user`, who gets it through the channel. */
  readonly to?: string;
}
export interface Reminder extends Required<Omit<NewReminder, 'at'>> {
  readonly startsAt: string;
  /** Null: it is over. */
  readonly nextAt: string | null;
  /** Times that are left, the next included. Null: no end. */
  readonly remaining: number | null;
  readonly lastAt: string | null;
  readonly lastOutcome: 'delivered' | 'cancelled' | 'failed' | null;
  readonly createdAt: string;
}
/** A message that another agent got. */
export interface SentMail {
  /** In the transcript of the receiver. Open a turn there with this id. */
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
/** What a command answered, as the plugins let it pass. */
export interface SshResult {
  /** As the three hooks got it. */
  readonly commandId: string;
  readonly host: { readonly id: string; readonly name: string };
  /** Null: a signal ended it. */
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
  /** Pinned keys. Empty: nothing is sent to the host. */
  readonly hostKeys: readonly string[];
  /** How it logs in. */
  readonly login: 'key' | 'password';
  /** The last test since the last change. Null: none. */
  readonly testedAt: string | null;
  /** Why the last test failed. Null: it did not. */
  readonly testFault: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}
/** The result of a test of an SSH host. */
export interface SshTest {
  readonly ok: boolean;
  /** The key that the host shows. Null: it was not reached. */
  readonly hostKey: string | null;
  readonly fault: string | null;
}
/** What became of a step of a turn. */
export interface Verdict {
  /** `cancel`: the step did not happen. Do not go on with it. */
  readonly action: 'continue' | 'cancel';
  readonly reason: string | null;
  /** Slug of the plugin that cancelled, or that is required and did not run. */
  readonly cancelledBy: string | null;
  /** False: a required plugin did not run. The same step may pass later. */
  readonly isFinal: boolean;
}
export interface NewTurn {
  /** Your own id; the message gets it too. The same id answers the same turn. Default: a random id. */
  readonly id?: string;
  /** The sender, as plugins see it. Default: `user`. */
  readonly from?: string;
  /** Default: the text of the transcript's message with this id, such as a channel's. */
  readonly text?: string;
  readonly attachments?: readonly Attachment[];
  readonly trigger: Trigger;
  /** Default: the instructions of the account's agent. */
  readonly systemPrompt?: string;
  readonly model?: string;
  /** How long the turn belongs to this runtime after each step. Default: 120. */
  readonly leaseSeconds?: number;
  /** Whether the answer has the prompt, which saves a request. Default: false. */
  readonly prompt?: boolean | Pick<PromptRequest, 'compactAfter' | 'keep'>;
}
export interface TurnRecord extends Verdict {
  readonly id: string;
  readonly sessionId: string;
  readonly state: 'judging' | 'open' | 'vetoed' | 'ended' | 'cleared';
  readonly trigger: Trigger;
  /** As the plugins let it pass; null: it did not pass. */
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
  /** If you asked for it, and the turn is open. */
  readonly prompt?: Prompt;
}
export interface TurnCall {
  readonly callId: string;
  readonly name: string;
  /**
   * `performing`: the runtime performs it, and has not sent its result. `interrupted`: its supervisor stopped while the tool
   * ran. It does not run again under this id.
   */
  readonly state: 'running' | 'performing' | 'answered' | 'interrupted';
  /** As the plugins let them pass, of a call that the runtime performs. Otherwise null. */
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
    /** Number of pieces that came. 0: it came whole. */
    readonly pieces: number;
    readonly text: string | null;
    readonly judgement: Judgement | null;
  }[];
}
/** A message that waits for an answer. */
export interface WaitingMessage {
  readonly sessionId: string;
  readonly agentId: string;
  readonly message: TranscriptMessage;
}
export interface PromptRequest {
  /** Default: as the turn was opened. */
  readonly systemPrompt?: string;
  readonly model?: string;
  /** Number of messages beyond which a plugin summarizes the older ones. Default: never. */
  readonly compactAfter?: number;
  /** Number of recent messages that a summary does not replace. Default: 4. */
  readonly keep?: number;
}
/** What to ask a model. All of it is empty where `action` is `cancel`. */
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
   * How plugins judge the agent's texts now. `none`: show them as they come. `pieces`: send pieces, such as sentences, and show
   * each when it is answered. `whole`: show nothing before the end.
   */
  readonly outbound: 'none' | 'pieces' | 'whole';
}
export interface TurnOutput extends Verdict {
  readonly id: string;
  readonly state: 'open' | 'passed' | 'vetoed';
  /** What may be shown now, after what was shown before. */
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
/** What happened in an account's sessions. A notice's `data.kind` says what it is about. */
export type SessionEvent =
  | Added
  /** The stream begins, or goes on after a broken connection. `gap`: something may have been missed, so read the sessions again. */
  | { readonly type: 'open'; readonly position: string; readonly gap: boolean }
  | {
      readonly type: 'cleared' | 'deleted';
      readonly position: string;
      readonly sessionId: string;
      readonly agentId: string;
      readonly at: string;
    }
  /** Ask for the tools again. */
  | { readonly type: 'tools'; readonly position: string };
/** Which sessions. Default: all of the account. */
export interface EventFilter {
  readonly sessionId?: string;
  readonly agentId?: string;
}
