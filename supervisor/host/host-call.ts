/** What a handler of a host call is: its types come from the row, its scope from the pipe. */
import type { z } from 'zod';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import type { HostCallName, hostCalls } from '../../sdk/contract/protocol.ts';

type Rows = typeof hostCalls;
export type HostArgs<Name extends HostCallName> = {
  readonly [Key in keyof Rows[Name]['params']]: Rows[Name]['params'][Key] extends z.ZodType
    ? z.output<Rows[Name]['params'][Key]>
    : never;
};
export type HostResult<Name extends HostCallName> = z.output<Rows[Name]['result']>;

/** Who calls, and for what. None of it comes from the message but the invocation's id, which is looked up. */
export interface HostScope {
  readonly plugin: InstalledPlugin;
  /** The session of the running handler; null for events, and once the handler answered. */
  readonly session: Session | null;
  readonly invocationId: string | null;
  /** Aborts when the call's time is over, the child ends or the grant goes. */
  readonly signal: AbortSignal;
  /** The installation's capabilities as they stand at this moment. */
  granted(): readonly string[];
  /** For a call that needs more than its member: the signal aborts when this says no of the grants, now or later. */
  needs(isHeld: (granted: readonly string[]) => boolean): void;
}
export type HostHandler<Name extends HostCallName> = (
  scope: HostScope,
  args: HostArgs<Name>,
) => Promise<HostResult<Name>>;
export type HostHandlers = { readonly [Name in HostCallName]: HostHandler<Name> };

/** A refusal that the plugin may read. Any other error reaches it as "failed" without its text. */
export class HostError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'HostError';
  }
}

/** The scope's session. @throws HostError outside a handler that has one */
export function sessionOf(scope: HostScope): Session {
  if (scope.session) return scope.session;
  throw new HostError('host.session works only while a handler that runs for a session has not answered yet');
}
