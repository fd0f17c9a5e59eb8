/** Calls a plugin's channel handlers. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { LinkResult } from '../calls/chain.ts';
import { checkSurfaceAnswer } from '../calls/surface-answers.ts';
import type { SessionServices } from '../sessions/session-services.ts';

interface ChannelCall {
  readonly name: 'receive' | 'send' | 'handshake';
  readonly invocationId: string;
  readonly budgetMs: number;
  /** The context besides the fields that every call has. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Calls a handler and validates its result: a malformed one is the plugin's error. */
export async function callChannelHandler(
  { invoker, metrics }: Pick<SessionServices, 'invoker' | 'metrics'>,
  plugin: InstalledPlugin,
  { name, invocationId, budgetMs, fields }: ChannelCall,
): Promise<LinkResult> {
  const started = performance.now();
  const deadlineAt = Date.now() + budgetMs;
  const target = { kind: 'channel', name } as const;
  const context = {
    invocationId,
    settings: plugin.settings,
    deadlineAt: new Date(deadlineAt).toISOString(),
    ...fields,
  };
  const called = await invoker.invoke(plugin, { target, invocationId, session: null, deadlineAt, context });
  const result =
    called.kind !== 'answered' || name === 'send'
      ? called
      : checkSurfaceAnswer(`channel.${name}`, called.answer ?? undefined);
  metrics.targetRan(target, plugin, result.kind, performance.now() - started);
  return result;
}
