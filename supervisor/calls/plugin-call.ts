/** One call of a plugin's handler, as the parts of the supervisor hand it to each other. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import type { Target } from '../../sdk/contract/protocol.ts';
import type { LinkResult } from './chain.ts';

export interface PluginCall {
  readonly target: Target;
  readonly invocationId: string;
  /** The whole context, as the row of the target says. */
  readonly context: Readonly<Record<string, unknown>>;
  /** What `host.session` is about; null outside a session. */
  readonly session: Session | null;
  /** Milliseconds since the epoch. */
  readonly deadlineAt: number;
  /** The caller's own way to give up: the handler's `signal` aborts, and the call is answered at once. */
  readonly signal?: AbortSignal;
}

/** Whoever can call plugins: the fleet, or a test's stand-in for timing and order. */
export interface PluginInvoker {
  /** Never rejects: a plugin that cannot be asked is a result like any other. */
  invoke(plugin: InstalledPlugin, call: PluginCall): Promise<LinkResult>;
}

/** The handler's name as authors write it and log lines show it. */
export function sourceOf(target: Target): string {
  if (target.kind === 'hook') return target.name;
  return target.kind === 'event' ? `events.${target.name}` : `${target.kind}.${target.name}`;
}

/** How stack traces name a bundle. */
export const sourceNameOf = ({ slug, semVer }: Pick<InstalledPlugin, 'slug' | 'semVer'>): string => `${slug}@${semVer}`;

/** The plugin's own stack, as data of a line about a call that failed. */
export const stackOf = (result: LinkResult): { stack?: string } =>
  'stack' in result && result.stack ? { stack: result.stack } : {};
