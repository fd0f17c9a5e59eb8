/**
 * Declares how host calls reach the other plugins of an account. Interfaces only, because the fleet that runs plugins is created after
 * the host calls that it answers: `supervisor.ts` connects the two.
 */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import type { AccountPlugins } from '../children/account-plugins-cache.ts';
import type { DeltaReader } from '../children/answer-deltas.ts';
import type { ChainState, Fields, LinkResult } from './chain.ts';

/** One run of a hook over the plugins of an account. */
export interface HookRequest {
  readonly hook: HookName;
  readonly accountId: string;
  /** Null outside a session; the contexts then name `actor` as agent and session. */
  readonly session: Session | null;
  /** The installation for which the hook runs. */
  readonly actor?: Pick<InstalledPlugin, 'installationId' | 'slug'>;
  /** An installation whose handler is not called. */
  readonly excludedInstallationId?: string | undefined;
  /** Whether plugins have judged this context before. Then only required plugins are called, and their context has `repeated`. */
  readonly isRepeated?: boolean | undefined;
  readonly trigger: string;
  /** Checked against the hook's row. */
  readonly context: Fields;
  /** Called with a context that a link changed. Not null: what the hook does not allow of it, so that the link failed. */
  readonly findFault?: ((context: Fields) => string | null) | undefined;
  /** Called with a context that a link changed. The next link gets what it returns. */
  readonly completeChange?: ((context: Fields) => Promise<Fields>) | undefined;
  /** Id of the notice that a cancel leaves in the transcript, so that a repeated run writes it once. Without it, the notice is written after the answer. */
  readonly noticeId?: string | undefined;
  /** Called when a link starts; the returned function is called when it ends. */
  readonly onLink?: ((invocationId: string) => () => void) | undefined;
}

export interface SurfaceRequest {
  readonly kind: 'tools' | 'commands' | 'providers';
  readonly name: string;
  readonly plugin: InstalledPlugin;
  /** Null for a provider that another plugin calls: the provider does not learn for whom it runs. */
  readonly session: Session | null;
  /** Default: a new id. */
  readonly invocationId?: string;
  /** Receives the deltas of a provider's answer, in order and before the result. */
  readonly onDelta?: DeltaReader | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The fields of the row's params besides those that every call has. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface PluginPort {
  loadPlugins(accountId: string): Promise<AccountPlugins>;
  /** Runs a hook and records a cancel in the session's transcript. */
  runHook(request: HookRequest): Promise<ChainState>;
  callSurface(request: SurfaceRequest): Promise<LinkResult>;
}
