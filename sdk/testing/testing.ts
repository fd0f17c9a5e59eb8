/**
 * The types of `@bulkhead/sdk/testing`, which a plugin's tests import. The implementation is `pack/testing/testing.ts`: it
 * uses code of the supervisor, which the SDK must not import.
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
import type { HookName as ShortHookName, ToolResult, Trigger } from '../session/api-types.ts';

type Rows = typeof hostCalls;
/** The arguments of a host call by name, such as `{ path, content }`. */
export type HostArguments<Name extends HostCallName> = z.output<z.ZodObject<Rows[Name]['params']>>;
export type HostAnswer<Name extends HostCallName> = Name extends 'http.fetch'
  ? WholeAnswer | StreamedAnswer
  : z.input<Rows[Name]['result']>;
/** An answer with its body as text or as bytes. The plugin gets both, as the service reads one from the other. */
export interface WholeAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyText?: string;
  readonly bodyBytes?: Uint8Array;
}
/** An answer whose body arrives in pieces: `fetch` reads each when the plugin asks for it. */
export interface StreamedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AsyncIterable<string | Uint8Array>;
}
export type ProviderRequest = z.input<typeof p.providerRequest>;
/** A piece of a model's answer. */
export type ProviderDelta = z.output<typeof p.providerDelta>;
/** The result of a host call: a value, or a function of the arguments. The plugin receives what the function throws. */
export type Scripted<Name extends HostCallName> =
  | HostAnswer<Name>
  | ((args: HostArguments<Name>) => HostAnswer<Name> | Promise<HostAnswer<Name>>);
/** Scripted results per host call: `{ llm: { complete: … }, http: { fetch: … } }`. */
export type HostScript = {
  readonly [Member in HostCallName extends `${infer M}.${string}` ? M : never]?: {
    readonly [Name in HostCallName as Name extends `${Member}.${infer Call}` ? Call : never]?: Scripted<Name>;
  };
};

export interface PluginOptions {
  /** The capabilities of `readme.md` that are granted. Default: all. */
  readonly grants?: readonly string[];
  /** Settings that replace the defaults of `readme.md`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Values by name. A handle that the plugin sends in a header reaches a scripted `http.fetch` and `calls` as its value, as it reaches a vendor. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Results of host calls. `host.secrets` reads `secrets` and `host.storage` works without a script. */
  readonly host?: HostScript;
  /** `agent` and `session` in the contexts of hooks, tools and commands. */
  readonly agent?: { readonly id: string; readonly name: string };
  readonly session?: { readonly id: string; readonly channelId: string | null };
}

/** `middleware.systemPrompt` or `systemPrompt`. */
export type AnyHookName = HookName | ShortHookName;
type Full<Name extends AnyHookName> = Name extends HookName ? Name : `middleware.${Name & ShortHookName}`;
type Context<Name extends AnyHookName> = (typeof hooks)[Full<Name>]['context'];
/** Some fields of a context. The others come from the example in the reference. */
export type Some<T> = { readonly [Key in keyof T]?: T[Key] extends readonly unknown[] ? T[Key] : Some<T[Key]> };
export interface HookResult<Name extends AnyHookName> {
  readonly action: 'continue' | 'cancel';
  /** The context with the changes of the hook. */
  readonly context: z.output<Context<Name>> &
    (Full<Name> extends 'compaction.summarize' ? { summary?: string } : unknown);
  /** Whether the hook changed the context. */
  readonly changed: boolean;
  /** The reason, if `action` is `cancel`. */
  readonly reason: string | null;
}

export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly data?: unknown;
  /** The handler that wrote the line, such as `tools.roll`; `background` outside of handlers; `system` for the host. */
  readonly source: string;
}
/** A host call that the plugin made. */
export interface MadeCall {
  readonly name: HostCallName;
  readonly args: Readonly<Record<string, unknown>>;
}
interface HookOptions {
  /** Asks as the host does where other plugins changed the context after a required one: with `ctx.repeated`. Default: false. */
  readonly repeated?: boolean;
  /**
   * The `ctx.trigger` of the hook. Default: that of the service, which is `user` for `systemPrompt` and `inboundMessage`, `system`
   * for `compaction.summarize`, `schedule` for `notifyDeliver` and `agent` for all others.
   */
  readonly trigger?: Trigger;
  /** Aborts `ctx.signal` of the hook. */
  readonly signal?: AbortSignal;
}

/** A vendor's webhook request. */
export interface VendorRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Without `?`. */
  readonly query?: string;
  readonly channelId?: string;
  readonly routingId?: string;
  /** Default: another one at each call. Pass the same `deliveryId` twice to repeat a delivery. */
  readonly deliveryId?: string;
  readonly attempt?: number;
  /** An ISO timestamp, with which the timestamp of a signature is compared. Default: now. */
  readonly receivedAt?: string;
}
type Reply = z.input<typeof p.channelReply>;
/** An agent's reply. Default: the first attempt at `delivery-1` of `channel-1`. */
export type AgentReply = Pick<Reply, 'conversationKey' | 'text' | 'attachments'> &
  Partial<Pick<Reply, 'deliveryId' | 'attempt' | 'channelId'>>;
export type Received = NonNullable<z.output<(typeof surfaces)['channel.receive']['result']>>;
export type Handshake = z.output<typeof p.handshakeAnswer>;

/** A package that runs in its own jailed process. Calls reject with `PluginError` if the plugin fails. */
export interface OpenPlugin extends AsyncDisposable {
  readonly name: string;
  /** `degraded`: the operating system's sandbox is not available, and `missing` says what to do. */
  readonly sandbox: { readonly state: 'full' | 'degraded'; readonly missing: string | null };
  /** The offers that a publish would discover. */
  readonly discovered: Readonly<Record<string, unknown>>;
  /** The warnings that saving a draft returns. */
  readonly warnings: readonly string[];
  /** The log lines of the plugin, oldest first. */
  readonly logs: readonly LogLine[];
  /** The host calls of the plugin, oldest first. */
  readonly calls: readonly MadeCall[];
  /** Runs a hook. Omitted context fields come from the example in the reference. */
  hook<Name extends AnyHookName>(
    name: Name,
    context?: Some<z.input<Context<Name>>>,
    options?: HookOptions,
  ): Promise<HookResult<Name>>;
  /** Calls a tool. Arguments are validated first, as in the service. If the handler throws, the result has `isError`, and `logs` the stack. */
  tool(name: string, args?: unknown, options?: { readonly signal?: AbortSignal }): Promise<ToolResult>;
  /** Runs a command from code or from `commands/`. */
  command(name: string, input?: string): Promise<string>;
  /**
   * Completes a request with a model provider. The request gets the provider's first model if it names none, as in the service.
   * `onDelta` gets the pieces of the answer, the next one when it has returned.
   *
   * @throws Error for a request that the service refuses
   */
  chat(
    provider: string,
    request: ProviderRequest,
    options?: { readonly onDelta?: (delta: ProviderDelta) => void | Promise<void>; readonly signal?: AbortSignal },
  ): Promise<z.output<typeof p.providerCompletion>>;
  /** Sends an event. Omitted `data` comes from the example in the reference. Pass `id` to repeat an event. */
  event<Name extends EventName>(
    name: Name,
    data?: Partial<z.input<(typeof events)[Name]['data']>>,
    options?: { readonly id?: string; readonly attempt?: number },
  ): Promise<void>;
  /** Delivers a webhook request to `channel.receive`. */
  receive(request: VendorRequest): Promise<Received>;
  /**
   * Runs `channel.handshake` if the service would: for GET and OPTIONS, and for a POST that `channel.handshakeOn` selects. Undefined
   * means that the service would queue the request. If the request is no handshake, `logs` says so.
   */
  handshake(request: VendorRequest): Promise<Handshake | undefined>;
  /** Passes an agent's reply to `channel.send`. */
  send(message: AgentReply): Promise<void>;
  /** Changes settings for the following calls. @throws Error for settings that `openPlugin` refuses */
  configure(settings: Readonly<Record<string, string>>): void;
  /** Ends the process. */
  close(): Promise<void>;
}

/** The plugin failed: it threw, timed out, returned a malformed result, or cancelled where that is not possible. */
export declare class PluginError extends Error {
  override readonly name: 'PluginError';
}

/**
 * Builds and checks a package like a publish, and starts it in a jailed process. Needs no running service. Declare it with
 * `await using`, or close it where a failed assertion closes it, too, such as in `t.after`: it keeps the test file running.
 *
 * @param folder the folder with `readme.md` and `index.ts`
 * @throws Error if the package is not valid or the options do not match it; the message says what to do
 */
export declare function openPlugin(folder: string, options?: PluginOptions): Promise<OpenPlugin>;
