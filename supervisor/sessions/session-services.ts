/** What the routes of the session API stand on. */
import type { Pool } from 'pg';
import type { Blobs } from '../../db/files/blobs.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import type { SessionRecord } from '../../sdk/session/api-types.ts';
import type { RowStreams } from '../../service/http/row-streams.ts';
import type { SignIn } from '../../service/identity/sign-in.ts';
import type { ArgumentChecks } from '../calls/argument-checks.ts';
import type { ChainDeps } from '../calls/chain-runner.ts';
import type { PluginInvoker } from '../calls/plugin-call.ts';
import type { AccountPluginsCache } from '../children/account-plugins-cache.ts';
import type { Inspections } from '../children/inspector/inspections.ts';
import type { SessionCache } from './session-cache.ts';

export interface SessionServices extends ChainDeps {
  readonly pool: Pool;
  readonly queues: Queues;
  readonly blobs: Blobs;
  readonly signIn: SignIn;
  readonly sessions: SessionCache;
  readonly pluginsCache: AccountPluginsCache;
  readonly invoker: PluginInvoker;
  readonly argumentChecks: ArgumentChecks;
  readonly streams: RowStreams;
  /** Told at each step; a test's may end the process there. */
  faultPoint(step: string): void;
  readonly inspections: Inspections;
  /** Sees to it that a version serves; answers why it does not, or null. */
  wake(plugin: InstalledPlugin): Promise<string | null>;
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
