/** One call of a plugin's handler. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { type ArgumentFault, surfaces, type Target } from '../../sdk/contract/protocol.ts';
import type { DeltaReader } from '../children/answer-deltas.ts';
import type { LinkResult } from './chain.ts';

/** What the host is late with makes a call, and a chain, at most this many times as long. */
export const BUDGET_FACTOR_MAX = 2;

/** The parts of a call's time that are not the plugin's fault. They may overlap. Milliseconds. */
export interface UncountedTime {
  /** All pauses of its budget. */
  readonly pausedMs: number;
  /** What the host was late with in its answers to the plugin's process. */
  readonly hostDelayMs: number;
}

export interface PluginCall {
  /** Only this version may answer; absent: any. */
  readonly versionId?: string;
  readonly target: Target;
  readonly invocationId: string;
  /** The context as the row of the target defines it. */
  readonly context: Readonly<Record<string, unknown>>;
  /** The session of `host.session`; null outside a session. */
  readonly session: Session | null;
  /** Milliseconds since the epoch. */
  readonly deadlineAt: number;
  /** Receives the deltas of a provider's answer, in order and before the result. */
  readonly onDelta?: DeltaReader | undefined;
  /** Called before the call ends, if a part of its time does not count. */
  readonly onUncounted?: ((time: UncountedTime) => void) | undefined;
  /** Aborts the call: the handler's `signal` aborts and the caller gets a result at once. */
  readonly signal?: AbortSignal | undefined;
}

/** Calls plugins: the fleet, or a fake in tests of timing and order. */
export interface PluginInvoker {
  /** Never rejects: a plugin that cannot be called gives the result `unavailable`. */
  invoke(plugin: InstalledPlugin, call: PluginCall): Promise<LinkResult>;
}

/** Whether handlers of a kind may run for a session: their contexts have one. Providers do not learn for whom they run. */
export const canHaveSession = (kind: Target['kind']): boolean =>
  kind === 'hook' || (kind !== 'event' && kind !== 'channel' && 'session' in surfaces[kind].params.shape);

/** Formats the handler's name as authors write it and log lines show it. */
export function formatSource(target: Target): string {
  if (target.kind === 'hook') return target.name;
  return target.kind === 'event' ? `events.${target.name}` : `${target.kind}.${target.name}`;
}

/** Formats the file name of a bundle in stack traces. */
export const formatSourceName = ({ slug, semVer }: Pick<InstalledPlugin, 'slug' | 'semVer'>): string =>
  `${slug}@${semVer}`;

export const describeArgumentFault = ([fault]: readonly ArgumentFault[]): string =>
  `${fault?.field ?? 'arguments'} ${fault?.message ?? 'is not valid'}.`;

/** The plugin's stack, as data of the log line about a failed call. */
export const pickStack = (result: LinkResult): { stack?: string } =>
  'stack' in result && result.stack ? { stack: result.stack } : {};
