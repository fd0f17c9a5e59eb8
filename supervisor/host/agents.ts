/** `host.agents`: the account's agents. A plugin changes and removes only agents that its installation created. */
import {
  AGENTS_BYTES,
  AGENTS_MAX,
  createAgent,
  deleteAgent,
  listAgents,
  updateAgent,
} from '../../db/accounts/agents.ts';
import { type AgentMessageDeps, openAgentSession, sendAgentMessage } from './agent-messages.ts';
import { HostError, type HostHandlers, type HostScope, requireStorable } from './host-call.ts';
import type { MessageChains } from './message-chains.ts';

type Calls = 'agents.list' | 'agents.create' | 'agents.update' | 'agents.remove' | 'agents.send';

const FULL = `limit reached: an account has at most ${AGENTS_MAX} agents and ${AGENTS_BYTES} bytes of their texts`;
const NOT_YOURS = 'this installation created no agent with this id';

interface AgentDeps extends AgentMessageDeps {
  readonly messageChains: MessageChains;
}

export function agentCalls(deps: AgentDeps): Pick<HostHandlers, Calls> {
  const { pool, queues } = deps;
  return {
    'agents.list': ({ plugin }) => listAgents(pool, plugin.accountId),
    'agents.create': async ({ plugin, signal, writes }, { agent }) => {
      const made = await createAgent(writes, toScope(plugin), storable(agent), signal);
      if (!made) throw new HostError(FULL);
      return made;
    },
    'agents.update': async ({ plugin, signal, writes }, { agentId, changes }) => {
      const { agentId: id } = storable({ agentId });
      const changed = await updateAgent(writes, toScope(plugin), id, storable(changes), signal);
      if (changed === 'absent') throw new HostError(NOT_YOURS);
      if (changed === 'full') throw new HostError(FULL);
      return changed;
    },
    'agents.remove': async ({ plugin, signal, writes }, { agentId }) => {
      if (!(await deleteAgent(writes, queues, toScope(plugin), storable({ agentId }).agentId, signal)))
        throw new HostError(NOT_YOURS);
      return undefined;
    },
    'agents.send': createSender(deps),
  };
}

function createSender(deps: AgentDeps): HostHandlers['agents.send'] {
  const { messageChains } = deps;
  return async (scope, given) => {
    const { agentId, text } = storable(given);
    const { plugin } = scope;
    messageChains.admit(scope, 'agents.send');
    const { accountId, installationId, slug } = plugin;
    const opened = await openAgentSession(deps, scope.writes, { accountId, agentId }, scope.signal);
    if (!opened) throw new HostError('the account has no agent with this id');
    scope.signal.throwIfAborted();
    const session = messageChains.extend(scope, opened);
    const fromAgentId = scope.session?.agentId ?? `plugin:${slug}`;
    const message = { fromAgentId, text, installationId, plugin: slug };
    const passed = await sendAgentMessage(deps, scope.writes, session, message, scope.signal);
    if ('cancelled' in passed) throw new HostError(passed.cancelled);
    return passed;
  };
}

const toScope = ({ accountId, installationId }: HostScope['plugin']) => ({
  accountId,
  madeBy: installationId,
});

/** @throws HostError for a text that PostgreSQL cannot store */
function storable<T extends object>(fields: T): T {
  for (const [name, value] of Object.entries(fields)) if (typeof value === 'string') requireStorable(value, name);
  return fields;
}
