/** What the routes of the session API stand on. */
import type { Pool } from 'pg';
import type { Blobs } from '../../db/blobs.ts';
import type { Queues } from '../../db/queues.ts';
import type { RosterEntry } from '../../db/rosters.ts';
import type { RowStreams } from '../../db/row-streams.ts';
import type { Session } from '../../db/sessions.ts';
import type { SignIn } from '../../db/sign-in.ts';
import type { SessionRecord } from '../../sdk/session/answers.ts';
import type { ChainDeps } from '../chain-runner.ts';
import type { RosterCache } from '../fleet/roster-cache.ts';
import type { Inspections } from '../inspector/inspections.ts';
import type { Plugins } from '../plugin-call.ts';
import type { ArgumentChecks } from './argument-checks.ts';
import type { SessionCache } from './session-cache.ts';

export interface SessionServices extends ChainDeps {
  readonly pool: Pool;
  readonly queues: Queues;
  readonly blobs: Blobs;
  readonly signIn: SignIn;
  readonly sessions: SessionCache;
  readonly rosters: RosterCache;
  readonly plugins: Plugins;
  readonly argumentChecks: ArgumentChecks;
  readonly streams: RowStreams;
  /** Told at each step; a test's may end the process there. */
  passes(step: string): void;
  readonly inspections: Inspections;
  /** Sees to it that a version serves; answers why it does not, or null. */
  wake(entry: RosterEntry): Promise<string | null>;
  /** Largest answer of a tool, as JSON. */
  readonly toolResultBytes: number;
}

/** The parameters of a route below a session. */
export interface SessionParams {
  readonly sessionId: string;
}
/** A session as the API shows it: clients know it by the same type. */
export const toBody = ({ id, agentId, agentName, channelId, createdAt, clearedAt }: Session): SessionRecord => ({
  id,
  agentId,
  agentName,
  channelId,
  createdAt,
  clearedAt,
});
