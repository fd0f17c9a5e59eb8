/** Asks the user questions in the terminal. */
import type { ParsedArgs } from './command.ts';
import type { Context } from './context.ts';
import { CommandError } from './failure.ts';

/**
 * Asks the user to confirm. Returns at once without a terminal or with `--yes`.
 *
 * @param declined the message after a no
 * @throws CommandError `interrupted` after a no
 */
export async function askToConfirm(
  { output }: Context,
  args: ParsedArgs,
  question: string,
  declined: string,
): Promise<void> {
  if (!output.isTerminal || args.flag('yes')) return;
  const { confirm } = await import('@clack/prompts');
  if ((await confirm({ message: question })) === true) return;
  throw new CommandError('interrupted', declined, { exit: 'interrupted' });
}

/**
 * Asks for a secret without echoing it.
 *
 * @param noTerminal the message without a terminal
 * @throws CommandError `usage` without a terminal
 */
export async function askForSecret({ output }: Context, message: string, noTerminal: string): Promise<string> {
  if (!output.isTerminal) throw new CommandError('usage', noTerminal);
  const { isCancel, password } = await import('@clack/prompts');
  const typed = await password({ message });
  if (isCancel(typed)) throw new DOMException('Interrupted', 'AbortError');
  return typed;
}
