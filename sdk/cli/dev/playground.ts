/** Runs the lines that the author types while `bulkhead dev` runs. */

import type { TraceLink } from '../../session/api-types.ts';
import type { Context } from '../context.ts';
import { parseJsonObject } from '../json-argument.ts';
import type { Draft } from './draft.ts';

const HELP = [
  'tool <name> [json]      call a tool of the draft',
  'hook <name> [json]      run a hook of all your plugins, such as systemPrompt',
  'fire <event> [json]     send the draft an event, such as sessionStarted',
  'command <name> [text]   run a command of the draft',
  'replace                 save the folder over a draft that was saved elsewhere',
  'help                    show this list; Ctrl-C exits',
].join('\n');

/** The lines that call the draft. */
const DRAFT_ACTIONS: ReadonlySet<string> = new Set(['tool', 'hook', 'command', 'fire']);

/** Input of often tried hooks. What is missing is filled in. */
const HOOK_EXAMPLES: ReadonlyMap<string, string> = new Map([
  ['systemPrompt', '{"systemPrompt":"Be brief."}'],
  ['inboundMessage', '{"message":{"text":"Hello"}}'],
  ['outboundMessage', '{"message":{"text":"Hello"}}'],
]);

interface ChainAnswer {
  readonly trace: readonly TraceLink[];
}

/** Runs one line and prints its result or error. Never rejects. @param save saves the folder and prints the outcome */
export async function runPlaygroundLine(
  context: Context,
  draft: Draft,
  line: string,
  save: () => Promise<void>,
): Promise<void> {
  const [, action = '', name = '', rest = ''] = /^\s*(\S+)\s*(\S*)\s*(.*)$/s.exec(line) ?? [];
  if (action === '') return;
  if (action === 'replace') {
    draft.allowReplacement();
    await save();
    return;
  }
  const { output } = context;
  try {
    // Otherwise a published version would answer in its place.
    const installationId = DRAFT_ACTIONS.has(action) ? await draft.requireRunning() : '';
    const answer = await runAction(draft, installationId, action, name, rest);
    const text = typeof answer === 'string' ? answer : JSON.stringify(answer, null, 2);
    output.printItem({ played: line.trim(), answer }, text);
    if (action === 'hook') output.printLine(describeChain(installationId, answer as ChainAnswer));
  } catch (error) {
    if (context.signal.aborted) return;
    const { code, message } = await context.explainError(error);
    output.printItem({ played: line.trim(), error: { code, message } }, `${output.paint.red('error')} ${message}`);
  }
}

/**
 * Says what each plugin of the chain did, and which one is the draft.
 *
 * @param draftId of the draft's installation
 */
function describeChain(draftId: string, { trace }: ChainAnswer): string {
  const links = trace.map(({ installationId, slug, outcome }) => {
    const name = installationId === draftId ? `${slug} (your draft)` : slug;
    return `${name}: ${outcome.replaceAll('_', ' ')}`;
  });
  return `Chain: ${links.join(', then ') || 'no plugin has this hook'}`;
}

/** @param installationId of the draft, which runs, if the action needs it */
async function runAction(
  { testSession, slug }: Draft,
  installationId: string,
  action: string,
  name: string,
  rest: string,
): Promise<unknown> {
  switch (action) {
    case 'tool':
      return testSession.callTool(slug, name, parseJsonObject(rest, '{"city":"Riga"}'));
    case 'hook':
      return testSession.runHook(name, parseJsonObject(rest, HOOK_EXAMPLES.get(name) ?? '{}'));
    case 'command':
      return testSession.runCommand(slug, name, rest);
    case 'fire':
      return testSession.fireEvent(installationId, name, parseJsonObject(rest, '{"messageCount":7}'));
    case 'help':
      return HELP;
    default:
      return `“${action}” is not one of these:\n${HELP}`;
  }
}
