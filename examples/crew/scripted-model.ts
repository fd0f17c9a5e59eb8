/** Stands for the model of a crew: what it says depends only on the conversation, as a model's answer does. */
import type { Json, Prompt } from '../../sdk/session/session.ts';

interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: Json;
}
type Step = readonly [name: string, args: Json];
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/**
 * The calls of an agent, and what it says when they are made. `todo` is the id in the first result, or in the message. `asker` is
 * the session of the planner in which a customer ordered: it goes from message to message, and the last mail answers there.
 */
function plan(
  agentId: string,
  said: string,
  todo: string,
  asker: string,
  at: string,
): readonly [steps: readonly Step[], text: string] {
  const order = /order \d+/i.exec(said)?.[0] ?? 'nothing';
  const mail = (toAgentId: string, text: string, to = {}): Step => ['agent__send', { toAgentId, text, ...to }];
  const task = `${order} of ${asker}: ${todo}`;
  if (/hello/i.test(said)) return [[], 'What would you like?'];
  if (/good night/i.test(said)) return [[['forget', { agentId: 'reviewer' }]], 'Good night.'];
  if (/approved/.test(said)) return [[], `${order} is done.`];
  if (agentId === 'planner')
    return [[['todo__create', { title: order }], mail('worker', `${order}: ${todo}`)], `${order} is planned.`];
  if (agentId === 'reviewer')
    return [
      [['todo__delete', { id: todo }], mail('planner', `${order} is approved`, { toSessionId: asker })],
      `${order} is fine.`,
    ];
  if (/^Ready/.test(said)) return [[['todo__complete', { id: todo }], mail('reviewer', task)], `${order} is out.`];
  const steps: Step[] = [
    ['ssh__run', { host: 'web', command: 'cat; echo baked', input: `${order}\n` }],
    ['bakery__keep', { text: order, picture: PIXEL }],
    ['todo__update', { id: todo, notes: 'In the oven.' }],
    ['notify__schedule', { text: `Ready: ${task}`, at, to: 'agent' }],
  ];
  return [steps, `${order} is in the oven.`];
}

export function askModel(agentId: string, { turnId, messages }: Prompt): { calls: readonly Call[]; text: string } {
  const asked = messages.find(({ id }) => id === turnId);
  const results = messages.filter(({ role, data }) => role === 'tool' && data?.turnId === turnId);
  const todo = /: (\S+)$/.exec(asked?.text ?? '')?.[1] ?? /"id":"([^"]+)"/.exec(results[0]?.text ?? '')?.[1] ?? '';
  const asker = / of (\S+): /.exec(asked?.text ?? '')?.[1] ?? String(asked?.data?.fromSessionId);
  const [steps, text] = plan(agentId, asked?.text ?? '', todo, asker, asked?.at ?? '');
  const [name, args] = steps[results.length] ?? [];
  return { text, calls: name ? [{ id: `call-${results.length}`, name, arguments: args ?? {} }] : [] };
}
