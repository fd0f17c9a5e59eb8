/** The services that the routes of the session API use. */
import { z } from 'zod';
import type { MediaQuota } from '../../db/accounts/media.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import type { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import type { RowStreams } from '../../service/http/row-streams.ts';
import type { Caller } from '../../service/identity/caller.ts';
import type { SignIn } from '../../service/identity/sign-in.ts';
import type { RetryingWriter } from '../../service/timing/retrying-writer.ts';
import type { HookDeps } from '../calls/hook-runner.ts';
import type { Inspections } from '../children/inspector/inspections.ts';
import type { AccountRouter } from '../cluster/account-router.ts';
import type { SshAccess } from '../host/ssh/guarded-command.ts';
import type { RecurrenceClock } from '../host-tools/recurrence-clock.ts';
import type { RunningCalls } from './running-calls.ts';
import type { SessionCache } from './session-cache.ts';
import type { UntouchedTurns } from './untouched-turns.ts';

/** Maximum size of the body of a hook or tool call. Untrusted plugins get it, and every other call of the process waits meanwhile. Bytes. */
export const CALL_BODY_MAX_BYTES = MIB;

export interface SessionServices extends HookDeps {
  readonly queues: Queues;
  readonly blobs: Blobs;
  readonly mediaQuota: MediaQuota;
  readonly signIn: SignIn;
  /** Routes requests to the owner of their account. */
  readonly router: AccountRouter;
  readonly sessions: SessionCache;
  readonly streams: RowStreams;
  /** Called at each step; a test may stop the step there. */
  faultPoint(step: string): Promise<void> | undefined;
  /** The SSH hosts of accounts, and connections to them. */
  readonly ssh: SshAccess;
  /** The times of reminders that repeat. */
  readonly recurrences: RecurrenceClock;
  readonly inspections: Inspections;
  /** Steps of turns and requests to the host's services that must not run twice at once. */
  readonly turnLocks: KeyedLocks;
  readonly untouchedTurns: UntouchedTurns;
  readonly runningCalls: RunningCalls;
  /** Aborts when the process stops and running requests have had their time. */
  readonly drainOver: AbortSignal;
  /** Retries writes of results that cannot be produced again. */
  readonly writes: Pick<RetryingWriter, 'write'>;
  /** Waits until no update of an installation is under way, or it waits for its user. */
  finishUpdate(installationId: string): Promise<void>;
  /** Starts the plugin's process if none runs. Resolves with why it does not start, or null. */
  wake(plugin: InstalledPlugin): Promise<string | null>;
  /** The largest result of a tool, as JSON. */
  readonly toolResultBytes: number;
}

export const sessionParams = z.object({ sessionId: z.string() });
/** `name` is that of a tool, command, skill or provider in sessions: `<slug>__<name>`. */
export const offerParams = sessionParams.extend({ name: z.string() });

/** The caller's session that a request names, with the notices of the hooks that were cancelled before. @throws Problem `not_found` */
export async function requireSession(
  { sessions, cancelNotices }: Pick<SessionServices, 'sessions' | 'cancelNotices'>,
  caller: Caller,
  { sessionId }: z.infer<typeof sessionParams>,
): Promise<Session> {
  const session = await sessions.get(caller.id, sessionId);
  await cancelNotices.waitUntilWritten(sessionId);
  return session;
}
