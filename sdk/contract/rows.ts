/** What a row of `protocol.ts` says: its columns, kind by kind. */
import type { z } from 'zod';

export type Risk = 'low' | 'medium' | 'high';
/** `spec`: the user's specification names it; `ours`: Bulkhead settled the name. */
export type Origin = 'spec' | 'ours';
/** `skip`: the chain goes on without it; `cancel`: the operation is vetoed; `builtin`: the runtime's own way is used. */
export type FailureRule = 'skip' | 'cancel' | 'builtin';

export interface Row {
  readonly doc: string;
  readonly since: string;
  readonly origin: Origin;
}
/** What a capability lets a plugin do, as the catalog says it to a user. */
export interface Reach {
  readonly reach: string;
  readonly risk: Risk;
}

export interface HookRow extends Row, Reach {
  /** The context beside `hookBase`. */
  readonly context: z.ZodObject;
  /** `replace`: the answer is the new value of one field. `patch`: it is an object of the `patchable` paths. */
  readonly answers:
    | { readonly kind: 'replace'; readonly field: string; readonly schema: z.ZodString }
    | { readonly kind: 'patch'; readonly patchable: readonly string[] };
  readonly cancellable: boolean;
  readonly onFailure: FailureRule;
  /** Milliseconds for one link, without the time spent waiting on `host.llm` and `host.ssh`. */
  readonly budgetMs: number;
  readonly example: { readonly context: Readonly<Record<string, unknown>>; readonly answer: unknown };
}

export interface EventRow extends Row, Reach {
  readonly data: z.ZodObject;
  /** Milliseconds for one attempt. */
  readonly budgetMs: number;
  readonly attempts: number;
  readonly example: Readonly<Record<string, unknown>>;
}

export interface SurfaceRow extends Row, Reach {
  /** What is registered beside the handlers; null where only a handler is assigned. */
  readonly registration: z.ZodObject | null;
  readonly params: z.ZodObject;
  /**
   * The field of `params` that the handler gets as its first argument; the other fields and `signal` come as the second,
   * `ctx`: `tools.x.handler(arguments, ctx)`, `commands.x.handler(input, ctx)`, `providers.x.chat(request, ctx)`,
   * `channel.receive(request, ctx)`. Hooks and events get one argument.
   */
  readonly first: string;
  readonly result: z.ZodType;
  readonly budgetMs: number;
  readonly maxResultBytes: number;
}
export interface CapabilityRow extends Reach {
  /** What `host.<member>:read` reaches; null where there is nothing to read apart. */
  readonly read: Reach | null;
}

export interface HostRow<Member extends string = string> extends Row {
  /** The grant it needs; null: every plugin has it. */
  readonly capability: Member | 'http' | null;
  /** Granted by the `:read` form too. */
  readonly readable: boolean;
  /** Positional arguments, in order, by name. */
  readonly params: Readonly<Record<string, z.ZodType>>;
  readonly result: z.ZodType;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** `digest`: outcome, duration and a digest of the arguments are kept; `none`: neither (nothing is reached). */
  readonly audit: 'digest' | 'none';
  /** Time spent waiting does not count against the handler's budget. */
  readonly pausesBudget: boolean;
}
