/** Types of host-call handlers. A call's row declares its parameters and result; the scope says which child called. */
import type { z } from 'zod';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { WritingPool } from '../../db/postgres/pool.ts';
import { isStorable, UNSTORABLE } from '../../db/postgres/storable-json.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import type { HostCallName, hostCalls } from '../../sdk/contract/protocol.ts';
import type { LiveInstallation } from './live-installation.ts';
import type { ResultTurn } from './result-turns.ts';

type Rows = typeof hostCalls;
export type HostArgs<Name extends HostCallName> = {
  readonly [Key in keyof Rows[Name]['params']]: Rows[Name]['params'][Key] extends z.ZodType
    ? z.output<Rows[Name]['params'][Key]>
    : never;
};
export type HostResult<Name extends HostCallName> = z.output<Rows[Name]['result']>;

/** The calling plugin and session. Only the invocation's id comes from the message, and it is looked up. */
export interface HostScope {
  readonly plugin: InstalledPlugin;
  /** The installation at the time the child was loaded: the version that makes the call. */
  readonly loaded: InstalledPlugin;
  /** The session of the running handler; null for events, and after the handler has answered. */
  readonly session: Session | null;
  readonly invocationId: string | null;
  /** Whether `chat` of a provider makes the call: then it may wait for a model. */
  readonly isFromProvider: boolean;
  /** Aborts on time-out, when the child ends, or when the capability is revoked. */
  readonly signal: AbortSignal;
  /** Aborts when the child ends. */
  readonly child: AbortSignal;
  /** The grants as they are now, also after the call. */
  readonly installation: LiveInstallation;
  /** The id under which the child reads a response body while it arrives. Null: the call returns the whole body. */
  readonly bodyId: string | null;
  /** For writes of the account's data: they fail if another supervisor owns the account by now. Counters of usage use the pool itself. */
  readonly writes: WritingPool;
  /** The turn of the event loop in which a large result is built and sent. Charges the parts of response bodies. */
  readonly resultTurn: Pick<ResultTurn, 'wait' | 'chargePart'>;
  /** The installation's current capabilities. */
  granted(): readonly string[];
  /** Requires more than the member's capability: the signal aborts when `isGranted` returns false, now or later. */
  needs(isHeld: (granted: readonly string[]) => boolean): void;
}
type HostHandler<Name extends HostCallName> = (scope: HostScope, args: HostArgs<Name>) => Promise<HostResult<Name>>;
export type HostHandlers = { readonly [Name in HostCallName]: HostHandler<Name> };

/** An error whose text the plugin may read. Of any other error, the plugin only learns that the call failed. */
export class HostError extends Error {
  override readonly name = 'HostError';
}

/** A limit was reached. Nothing was done, and the same call may succeed later. */
export class HostLimitError extends HostError {
  /** Seconds. */
  readonly retryAfter: number;
  constructor(message: string, retryAfter: number) {
    super(message);
    this.retryAfter = retryAfter;
  }
}

/** Returns a text that PostgreSQL can store. @throws HostError for another one */
export function requireStorable(text: string, what: string): string {
  if (isStorable(text)) return text;
  throw new HostError(`${what} ${UNSTORABLE}`);
}

/** Returns the scope's session. @throws HostError outside a handler that has one */
export function requireScopeSession<T>({ session }: { readonly session: T | null }): T {
  if (session) return session;
  throw new HostError('host.session works only in a handler that runs for a session, before it answers');
}
