/** What one types while `bulkhead dev` runs: a line asks the draft something, and its answer is shown. */
import type { Context } from '../context.ts';
import { failureOf } from '../failure.ts';
import { typedObject } from '../typed-json.ts';
import type { Draft } from './draft.ts';

export const PLAYGROUND_HELP = [
  'tool <name> [json]      call a tool of the draft',
  'hook <name> [json]      pass a context through a hook, such as systemPrompt',
  'fire <event> [json]     send the draft an event, such as sessionStarted',
  'command <name> [text]   run a command of the draft',
  'help                    this list; Ctrl-C ends',
].join('\n');

/** Answers one line. Never rejects: what fails is told. */
export async function play(context: Context, draft: Draft, line: string): Promise<void> {
  const [, verb = '', name = '', rest = ''] = /^\s*(\S+)\s*(\S*)\s*(.*)$/s.exec(line) ?? [];
  if (verb === '') return;
  const { output } = context;
  try {
    const answer = await ask(draft, verb, name, rest);
    output.item({ played: line.trim(), answer }, typeof answer === 'string' ? answer : JSON.stringify(answer, null, 2));
  } catch (error) {
    if (context.signal.aborted) return;
    const { code, message } = failureOf(error, await context.url());
    output.item({ played: line.trim(), error: { code, message } }, `${output.paint.red('error')} ${message}`);
  }
}

async function ask(draft: Draft, verb: string, name: string, rest: string): Promise<unknown> {
  const { trials, slug, installationId } = draft;
  if (verb === 'tool') return trials.call(slug, name, typedObject(rest, '{"city":"Riga"}'));
  if (verb === 'hook') return trials.hook(name, typedObject(rest, '{"systemPrompt":"Be brief."}'));
  if (verb === 'command') return trials.command(slug, name, rest);
  if (verb !== 'fire') return PLAYGROUND_HELP;
  if (installationId === null) return 'Nothing is saved yet.';
  return trials.fire(installationId, name, typedObject(rest, '{"messageCount":7}'));
}
