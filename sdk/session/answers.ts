/** What the session API takes and answers, typed from the protocol's rows. */
import type { z } from 'zod';
import type * as p from '../contract/payloads.ts';
import type { hooks } from '../contract/protocol.ts';

type Hooks = typeof hooks;
/** `middleware.systemPrompt` → `systemPrompt`: the hooks that a runtime runs by name. */
export type HookName = {
  [Key in keyof Hooks]: Key extends `middleware.${infer Short}` ? Short : never;
}[keyof Hooks];
/** The fields of a hook beside those that the service adds. */
export type HookContext<Name extends HookName> = z.input<Hooks[`middleware.${Name}`]['context']>;
export type Trigger = z.infer<typeof p.trigger>;
export type Json = z.infer<typeof p.json>;

export interface TraceLink {
  readonly installationId: string;
  readonly slug: string;
  readonly ms: number;
  readonly outcome: string;
  readonly reason?: string;
}
export interface HookAnswer<Name extends HookName> {
  /** `cancel`: a plugin stopped the operation; do not go on with it. */
  readonly action: 'continue' | 'cancel';
  /** The context as the chain left it. */
  readonly context: z.output<Hooks[`middleware.${Name}`]['context']>;
  readonly reason: string | null;
  /** Slug of the plugin that stopped it. */
  readonly cancelledBy: string | null;
  readonly trace: readonly TraceLink[];
}
export interface Summary {
  /** Null with `builtin`: use the runtime's own summarizer. */
  readonly summary: string | null;
  readonly source: 'plugin' | 'builtin';
  readonly notice: string | null;
}
export interface SessionRecord {
  readonly id: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly channelId: string | null;
  readonly createdAt: string;
  readonly clearedAt: string | null;
}
export interface NewSession {
  readonly agentId: string;
  readonly agentName?: string;
  readonly channelId?: string | null;
}
export interface NewMessage {
  /** Your own id: adding it again adds nothing. One is made where you give none. */
  readonly id?: string;
  readonly role: z.infer<typeof p.role>;
  readonly text: string;
  readonly data?: Readonly<Record<string, Json>>;
}
export type TranscriptMessage = z.infer<typeof p.transcriptMessage>;
export type Completion = z.infer<typeof p.completion>;
export type CompletionRequest = z.input<typeof p.completionRequest>;
export type ToolResult = z.infer<typeof p.toolResult>;

interface Offered {
  /** `<slug>__<name>` */
  readonly name: string;
  readonly installationId: string;
  readonly slug: string;
}
export interface Tool extends Offered {
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
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}
/** What the stream tells: a message, or a notice of a plugin or of the service. */
export interface Added {
  readonly type: 'message' | 'notice';
  /** Where to go on from: give it as `after`. */
  readonly position: string;
  readonly sessionId: string;
  readonly message: TranscriptMessage;
}
