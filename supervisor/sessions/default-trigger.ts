/** The trigger of a hook whose caller sends none. The session API and the kit for tests of plugins share it. */
import type { z } from 'zod';
import type { trigger } from '../../sdk/contract/payloads.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';

/** Hooks that run for the sender of a message. */
const OF_THE_SENDER: readonly HookName[] = ['middleware.systemPrompt', 'middleware.inboundMessage'];

/** An action of an agent must not look like an action of a person. */
export function defaultTrigger(hook: HookName): z.infer<typeof trigger> {
  if (hook === 'compaction.summarize') return 'system';
  return OF_THE_SENDER.includes(hook) ? 'user' : 'agent';
}
