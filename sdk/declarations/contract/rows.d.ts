/** The columns of the rows in `protocol.ts`, per kind of row. */
import type { z } from 'zod';
export type Risk = 'low' | 'medium' | 'high';
/** `skip`: the chain continues; `cancel`: the operation is cancelled; `builtin`: the runtime uses its own implementation. */
export type FailureRule = 'skip' | 'cancel' | 'builtin';
export interface Row {
    readonly doc: string;
    readonly since: string;
}
/** A sentence for users: the actions that a capability allows a plugin. */
export interface Reach {
    readonly reach: string;
    readonly risk: Risk;
}
export interface HookRow extends Row, Reach {
    /** The fields of the context in addition to `hookBase`. */
    readonly context: z.ZodObject;
    /** `replace`: the handler returns the new value of one field. `patch`: it returns an object of `patchable` paths. */
    readonly answers: {
        readonly kind: 'replace';
        readonly field: string;
        readonly schema: z.ZodString;
    } | {
        readonly kind: 'patch';
        readonly patchable: readonly string[];
    };
    readonly cancellable: boolean;
    /** Whether a handler that is assigned as `{ stream: true, handler }` judges messages piece by piece. */
    readonly streams?: true;
    readonly onFailure: FailureRule;
    /** Milliseconds for one link. Waiting on `host.llm` and `host.ssh` does not count. */
    readonly budgetMs: number;
    readonly example: {
        readonly context: Readonly<Record<string, unknown>>;
        readonly answer: unknown;
    };
}
export interface EventRow extends Row, Reach {
    readonly data: z.ZodObject;
    /** Milliseconds for one attempt. */
    readonly budgetMs: number;
    readonly attempts: number;
    readonly example: Readonly<Record<string, unknown>>;
}
export interface SurfaceRow extends Row, Reach {
    /** The fields registered in addition to the handlers; null where only a handler is assigned. */
    readonly registration: z.ZodObject | null;
    readonly params: z.ZodObject;
    /**
     * The field of `params` that the handler receives as its first argument, such as `arguments` in
     * `tools.x.handler(arguments, ctx)`. `ctx` has the other fields and `signal`. Hooks and events receive one argument.
     */
    readonly first: string;
    readonly result: z.ZodType;
    /** The values that a handler yields if it is an async generator. It returns the result. */
    readonly delta?: z.ZodType;
    readonly budgetMs: number;
    /** What the result has at most: bytes in all, characters of its `text` or `body`. Empty: the handler returns nothing. */
    readonly resultMax: {
        readonly bytes?: number;
        readonly textChars?: number;
        readonly bodyChars?: number;
    };
}
export interface CapabilityRow extends Reach {
    /** What `host.<member>:read` allows. */
    readonly read: Reach;
}
export interface HostRow<Member extends string = string> extends Row {
    /** The capability it needs; null: every plugin may call it. */
    readonly capability: Member | 'http' | null;
    /** Whether the `:read` form grants it too. */
    readonly readable: boolean;
    /** The positional arguments in order, by name. */
    readonly params: Readonly<Record<string, z.ZodType>>;
    readonly result: z.ZodType;
    readonly timeoutMs: number;
    /** Of the result. */
    readonly maxBytes: number;
    /** `digest`: outcome, duration and a digest of the arguments are recorded; `none`: nothing is recorded. */
    readonly audit: 'digest' | 'none';
    /**
     * The treatment of values of the installation's secrets in the arguments. `sent`: they stay, because the call sends them where the
     * plugin says. `masked`: users would see them. `refused`: they would be stored in plain text.
     */
    readonly secrets: 'sent' | 'masked' | 'refused';
    /**
     * What waiting for the result does to the handler's budget. `paused`: its clock stops. `counted`: it runs, because the plugin chose to
     * wait for other hosts or plugins. `extended`: it runs, and what the host takes longer than usual is added.
     */
    readonly budget: 'paused' | 'counted' | 'extended';
}
