/** The plugins of each account: one that counts, gets webhooks and events, and a required guard. */
import { COUNTER_KEY } from './write-ledger.ts';

export const FORBIDDEN = 'forbidden';
export const MARK = ' (seen)';
/** Prefix of the agents of opened sessions. The place of the session in their order follows. */
export const AGENT_PREFIX = 'agent-';

const describePlugin = (name: string, capabilities: readonly string[]): string => `---
name: ${name}
description: Runs in the nemesis
capabilities: [${capabilities.join(', ')}]
---
`;

interface NemesisPlugin {
  readonly slug: string;
  readonly required: boolean;
  readonly readme: string;
  readonly code: string;
}

/** The counter takes care of its own concurrent calls, and knows of no other process. */
const workerCode = (account: string): string => `let last: Promise<unknown> = Promise.resolve();
commands.count = {
  description: 'Adds one',
  handler: async () => {
    const added = last.then(async () => {
      const next = (((await host.storage.get('${COUNTER_KEY}')) as number | null) ?? 0) + 1;
      await host.storage.set('${COUNTER_KEY}', next);
      return next;
    });
    last = added.catch(() => undefined);
    return String(await added);
  },
};
const report = (id: string, queue: string, place: number) =>
  host.llm.complete({ messages: [{ role: 'user', text: JSON.stringify({ id, queue, place }) }] });
channel.receive = async (request) => {
  const [queue = '', place] = request.bodyText.split(' ');
  await report(request.deliveryId, queue, Number(place));
};
events.sessionStarted = async ({ data }) => {
  const place = data.agentId.startsWith('${AGENT_PREFIX}') ? Number(data.agentId.slice(${AGENT_PREFIX.length})) : -1;
  if (place >= 0) await report(data.sessionId, 'events of ${account}', place);
};
`;

const GUARD_CODE = `middleware.inboundMessage = ({ message, cancel }) =>
  message.text.includes('${FORBIDDEN}')
    ? cancel('forbidden')
    : { message: { text: message.text + '${MARK}' } };
`;

export const listPlugins = (account: string): readonly NemesisPlugin[] => [
  {
    slug: `worker-${account}`,
    required: false,
    readme: describePlugin('Worker', ['host.storage', 'host.llm']),
    code: workerCode(account),
  },
  { slug: `guard-${account}`, required: true, readme: describePlugin('Guard', []), code: GUARD_CODE },
];
