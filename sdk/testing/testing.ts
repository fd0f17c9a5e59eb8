/**
 * `@bulkhead/sdk/testing`: what a plugin's own tests import. Types only; the code comes from `pack/testing/testing.ts`, which
 * the package is built with, since it runs what the service runs.
 */
import type { z } from 'zod';
import type * as p from '../contract/payloads.ts';
import type {
  EventName,
  events,
  HookName,
  HostCallName,
  hooks,
  hostCalls,
  LogLevel,
  surfaces,
} from '../contract/protocol.ts';
import type { CompletionRequest, HookName as ShortHookName, ToolResult } from '../session/answers.ts';

type Rows = typeof hostCalls;
/** The arguments of a host call by the names that the reference gives them, such as `{ path, content }`. */
export type HostArguments<Name extends HostCallName> = z.output<z.ZodObject<Rows[Name]['params']>>;
export type HostAnswer<Name extends HostCallName> = z.input<Rows[Name]['result']>;
/** What a host call answers: always this, or what a function makes of the arguments. What it throws, the plugin catches. */
export type Scripted<Name extends HostCallName> =
  | HostAnswer<Name>
  | ((args: HostArguments<Name>) => HostAnswer<Name> | Promise<HostAnswer<Name>>);
/** Scripted answers as the plugin writes the calls: `{ llm: { complete: … }, http: { fetch: … } }`. */
export type HostScript = {
  readonly [Member in HostCallName extends `${infer M}.${string}` ? M : never]?: {
    readonly [Name in HostCallName as Name extends `${Member}.${infer Call}` ? Call : never]?: Scripted<Name>;
  };
};

export interface PluginOptions {
  /** Of the capabilities in `readme.md`, those that the account accepted. Default: all. */
  readonly grants?: readonly string[];
  /** Over the defaults of `readme.md`. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly secrets?: Readonly<Record<string, string>>;
  /** `host.secrets` answers from `secrets`, `host.storage` keeps what it is given; all else is said here. */
  readonly host?: HostScript;
  /** Who and where, in the contexts of hooks, tools and commands. */
  readonly agent?: { readonly id: string; readonly name: string };
  readonly session?: { readonly id: string; readonly channelId: string | null };
}

/** `middleware.systemPrompt`, or `systemPrompt` as runtimes say it. */
export type AnyHookName = HookName | ShortHookName;
type Full<Name extends AnyHookName> = Name extends HookName ? Name : `middleware.${Name & ShortHookName}`;
type Context<Name extends AnyHookName> = (typeof hooks)[Full<Name>]['context'];
/** Some of a context's fields; the rest comes from the row's example. */
export type Some<T> = { readonly [Key in keyof T]?: T[Key] extends readonly unknown[] ? T[Key] : Some<T[Key]> };
export interface HookResult<Name extends AnyHookName> {
  readonly action: 'continue' | 'cancel';
  /** As the hook left it. */
  readonly context: z.output<Context<Name>> &
    (Full<Name> extends 'compaction.summarize' ? { summary?: string } : unknown);
  /** Whether it changed anything. */
  readonly changed: boolean;
  /** Of a veto. */
  readonly reason: string | null;
}

export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly data?: unknown;
  /** The handler that wrote it, such as `tools.roll`; `background` outside any, `system` where the host speaks. */
  readonly source: string;
}
/** A host call that the plugin made, with its answer still to come or given. */
export interface MadeCall {
  readonly name: HostCallName;
  readonly args: Readonly<Record<string, unknown>>;
}
/** A vendor's request. Its text or its bytes are the body. */
export interface VendorRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Without the question mark. */
  readonly query?: string;
  readonly channelId?: string;
  readonly routingId?: string;
  readonly deliveryId?: string;
  readonly attempt?: number;
}
export type Received = NonNullable<z.output<(typeof surfaces)['channel.receive']['result']>>;
export type Handshake = z.output<typeof p.handshakeAnswer>;

/** A package that runs in a jailed process of its own. Calls reject with `PluginError` where the plugin fails. */
export interface OpenPlugin extends AsyncDisposable {
  readonly name: string;
  /** `full`: every wall stands. `degraded`: the operating system's could not be built, and `missing` says what to do. */
  readonly sandbox: { readonly state: 'full' | 'degraded'; readonly missing: string | null };
  /** What a publish would discover. */
  readonly discovered: Readonly<Record<string, unknown>>;
  /** What a draft would warn of. */
  readonly warnings: readonly string[];
  /** What it wrote so far, oldest first. */
  readonly logs: readonly LogLine[];
  /** The host calls it made so far. */
  readonly calls: readonly MadeCall[];
  /** Runs a hook. Fields of the context that are left out are those of the reference's example. */
  hook<Name extends AnyHookName>(name: Name, context?: Some<z.input<Context<Name>>>): Promise<HookResult<Name>>;
  /** Calls a tool. Arguments are checked against its schema first, as the service does. A handler that throws is an answer with `isError`. */
  tool(name: string, args?: unknown, options?: { readonly signal?: AbortSignal }): Promise<ToolResult>;
  /** Runs a command, of code or of `commands/`. */
  command(name: string, input?: string): Promise<string>;
  /** Asks a provider of models. */
  chat(provider: string, request: CompletionRequest): Promise<z.output<typeof p.completion>>;
  /** Tells of an event. `data` that is left out is the reference's example; `id` is new unless it is given, as for a second attempt. */
  event<Name extends EventName>(
    name: Name,
    data?: Partial<z.input<(typeof events)[Name]['data']>>,
    options?: { readonly id?: string; readonly attempt?: number },
  ): Promise<void>;
  /** Delivers a webhook request to `channel.receive`. */
  receive(request: VendorRequest): Promise<Received>;
  /** Asks `channel.handshake`; undefined: the request would be queued. */
  handshake(request: VendorRequest): Promise<Handshake | undefined>;
  /** Gives an agent's reply to `channel.send`. */
  send(message: z.input<typeof p.channelReply>): Promise<void>;
  /** New settings for the calls after it, over those given before. */
  configure(settings: Readonly<Record<string, string>>): void;
  /** Ends the process. */
  close(): Promise<void>;
}

/** The plugin's own fault: it threw, took too long, answered what it may not, or vetoed where nothing can be vetoed. */
export declare class PluginError extends Error {
  override readonly name: 'PluginError';
}

/**
 * Starts a package from its folder as the service would run it: built and checked like a publish, in a jailed process,
 * with nothing around it but what `options` say. Needs no service. Close it at the end of the test, or say `await using`.
 *
 * @param folder where `readme.md` and `index.ts` lie
 * @throws Error with one sentence that says where and what to do: the package is not valid, or the options do not fit it
 */
export declare function openPlugin(folder: string, options?: PluginOptions): Promise<OpenPlugin>;
