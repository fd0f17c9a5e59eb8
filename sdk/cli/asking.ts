/** Questions to whoever sits at the terminal. */
import type { Given } from './command.ts';
import type { Context } from './context.ts';
import { CommandError } from './failure.ts';

/**
 * Asks for a yes, where somebody can be asked and `--yes` was not given.
 *
 * @param otherwise what was left undone after a no, as a sentence
 * @throws CommandError `interrupted` after a no
 */
export async function agree({ output }: Context, given: Given, question: string, otherwise: string): Promise<void> {
  if (!output.isTerminal || given.flag('yes')) return;
  const { confirm } = await import('@clack/prompts');
  if ((await confirm({ message: question })) !== true)
    throw new CommandError('interrupted', otherwise, { exit: 'interrupted' });
}

/**
 * Asks for what must not be seen while it is typed.
 *
 * @param nobody what to do instead where nobody can be asked, as a sentence
 * @throws CommandError `usage` where nobody can be asked
 */
export async function askHidden({ output }: Context, message: string, nobody: string): Promise<string> {
  if (!output.isTerminal) throw new CommandError('usage', nobody, { exit: 'usage' });
  const { isCancel, password } = await import('@clack/prompts');
  const typed = await password({ message });
  if (isCancel(typed)) throw new DOMException('Interrupted', 'AbortError');
  return typed;
}
