/**
 * The plugins that a run installs. They judge by words in the texts: `forbidden` stops a user's message, `classified` the
 * agent's, `4111` and `loafs` are changed. `wait-…` holds a hook until the runtime gives up.
 */
import { type Package, packageOf } from '../packages.ts';

/** Which of them judges the agent's texts while the scenarios of a chapter are played. Each is required. */
export type Guard = 'none' | 'whole' | 'pieces' | 'failing';

/**
 * A hook that waits gives up so long before its deadline, milliseconds. The kit tells the runtime to stop when the hook's log line
 * has come, which takes a fraction of a second, and seconds on a busy machine.
 */
const BEFORE_DEADLINE_MS = 1_000;
/** How long the tool `hold` runs, milliseconds: until its runtime was killed and started again. */
const HOLD_MS = 1_500;
/** One red pixel. */
const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

const COMMON = `
const wait = (ctx: any, name: string): Promise<void> => new Promise((resolve) => {
  host.log('waiting ' + name);
  const finish = (how: string): void => { clearTimeout(timer); host.log(how + ' ' + name, { sessionId: ctx.session.id }); resolve(); };
  ctx.signal.addEventListener('abort', () => finish('aborted'));
  const waitMs = Date.parse(ctx.deadlineAt) - Date.now() - ${BEFORE_DEADLINE_MS};
  const timer = name === 'tool' ? undefined : setTimeout(() => finish('waited'), waitMs);
});
const processId = crypto.randomUUID();
tools.mark = { description: 'For the kit alone', parameters: { type: 'object' },
  handler: ({ mark }: any) => { host.log('mark ' + mark); return processId; } };
`;

const JUDGE = `${COMMON}
middleware.systemPrompt = async (ctx) => {
  if (ctx.agent.id === 'wait-prompt') await wait(ctx, 'prompt');
  return ctx.systemPrompt + ' Answer in one line.';
};
middleware.inboundMessage = async (ctx) => {
  const { text } = ctx.message;
  host.log('inbound', { trigger: ctx.trigger });
  if (text.includes('wait-inbound')) await wait(ctx, 'inbound');
  if (text.includes('forbidden')) ctx.cancel('we do not speak of it');
  return { message: { text: text.replaceAll('4111', '[card]') } };
};
middleware.toolCall = (ctx) => {
  if (ctx.call.name.endsWith('__risky')) ctx.cancel('it is too risky');
  return (ctx.call.arguments as any)?.a === 13 ? { call: { arguments: { a: 1, b: 2 } } } : undefined;
};
middleware.toolResult = (ctx) => {
  if (ctx.call.name.endsWith('__withheld')) ctx.cancel('it is withheld');
  return ctx.call.name.endsWith('__leak') ? { result: { content: [{ type: 'text', text: 'key=[redacted]' }] } } : undefined;
};
compaction.summarize = (ctx) => {
  if (ctx.agent.id === 'broken-summary') throw new Error('as the scenario says');
  return 'They spoke about bread.';
};
const numbers = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'], additionalProperties: false };
const parameters = { type: 'object' };
tools.add = { description: 'Adds two numbers', parameters: numbers,
  handler: ({ a, b }: any) => { host.log('ran add'); return String(a + b); } };
tools.risky = { description: 'May not run', parameters, handler: () => { host.log('ran risky'); return 'done'; } };
tools.leak = { description: 'Answers with a key', parameters, handler: () => 'key=hunter2' };
tools.withheld = { description: 'Answers with a key', parameters, handler: () => 'key=hunter3' };
tools.fail = { description: 'Fails', parameters, handler: () => { throw new Error('the oven is off'); } };
tools.wait = { description: 'Waits', parameters,
  handler: async (_args: object, ctx: any) => { host.log('ran wait'); await wait(ctx, 'tool'); return 'late'; } };
tools.hold = { description: 'Takes a while', parameters,
  handler: async () => { host.log('ran hold'); await new Promise((resolve) => setTimeout(resolve, ${HOLD_MS})); return 'held'; } };
tools.picture = { description: 'Answers with a picture', parameters,
  handler: () => ({ content: [{ type: 'image', data: '${PICTURE}', mimeType: 'image/png' }] }) };
`;

const OUTBOUND = `${COMMON}
const judge = async (ctx: any) => {
  const { text } = ctx.message;
  if (text.includes('wait-outbound')) await wait(ctx, 'outbound');
  if (text.includes('classified')) ctx.cancel('that is classified');
  return { message: { text: text.replaceAll('loafs', 'loaves') } };
};
`;

/** Its hooks fail for the agents `down-<hook>`, and once in each session of `moody-<hook>`. */
const DOWN = `${COMMON}
const failed = new Set<string>();
const check = (ctx: any, hook: string): void => {
  const isFirst = !failed.has(ctx.session.id + hook);
  if (ctx.agent.id !== 'down-' + hook && !(ctx.agent.id === 'moody-' + hook && isFirst)) return;
  failed.add(ctx.session.id + hook);
  throw new Error('as the scenario says');
};
middleware.systemPrompt = (ctx) => { check(ctx, 'systemPrompt'); return ctx.systemPrompt; };
middleware.inboundMessage = (ctx) => check(ctx, 'inboundMessage');
middleware.outboundMessage = (ctx) => check(ctx, 'outboundMessage');
middleware.toolCall = (ctx) => check(ctx, 'toolCall');
middleware.toolResult = (ctx) => check(ctx, 'toolResult');
compaction.summarize = (ctx) => { check(ctx, 'summarize'); return 'They spoke about bread.'; };
`;

const describe = (name: string) => ({ name, description: 'Installed by a check of a runtime' });

/** Judges messages of users, tool calls and their results. No text of the agent. */
export const judge: Package = packageOf(JUDGE, describe('Judge'));
/** Judges each text of the agent as a whole. */
export const wholeGuard: Package = packageOf(`${OUTBOUND}middleware.outboundMessage = judge;`, describe('Whole guard'));
/** Judges the agent's texts piece by piece. */
export const pieceGuard: Package = packageOf(
  `${OUTBOUND}middleware.outboundMessage = { stream: true, handler: judge };`,
  describe('Piece guard'),
);
/** Does not do its work for some agents. */
export const failingGuard: Package = packageOf(DOWN, describe('Failing guard'));
