/** Asks the user questions in the terminal. */
import type { ParsedArgs } from './command.ts';
import type { Context } from './context.ts';
import { CommandError } from './failure.ts';
import { escapeUnsafe, toOneLine } from './terminal-text.ts';

/**
 * Asks the user to confirm. Returns at once with `--yes`.
 *
 * @param declined the message after a no, and without a terminal
 * @throws CommandError `interrupted` after a no, `confirmation_required` without a terminal
 */
export async function askToConfirm(
  context: Context,
  args: ParsedArgs,
  question: string,
  declined: string,
): Promise<void> {
  if (args.flag('yes')) return;
  if (!context.canAsk) {
    const message = `${declined} There is no terminal to confirm it. To give your consent, pass \`--yes\`.`;
    throw new CommandError('confirmation_required', message);
  }
  const { confirm } = await import('@clack/prompts');
  if ((await confirm({ message: escapeUnsafe(toOneLine(question)) })) === true) return;
  throw new CommandError('interrupted', declined, { exit: 'interrupted' });
}

/**
 * Asks for a secret without echoing it.
 *
 * @param noTerminal the message without a terminal
 * @throws CommandError `usage` without a terminal
 */
export async function askForSecret({ canAsk }: Context, message: string, noTerminal: string): Promise<string> {
  if (!canAsk) throw new CommandError('usage', noTerminal);
  const { isCancel, password } = await import('@clack/prompts');
  const typed = await password({ message });
  if (isCancel(typed)) throw new DOMException('Interrupted', 'AbortError');
  return typed;
}
