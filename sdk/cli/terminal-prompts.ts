/** Asks the user questions in the terminal. */
import type { ParsedArgs } from './command.ts';
import type { Context } from './context.ts';
import { CommandError } from './failure.ts';
import { escapeUnsafe, toOneLine } from './terminal-text.ts';

/** The width of a terminal that reports none, as serial consoles and some containers do: 80, as in the terminfo entry of `vt100`. */
const DEFAULT_COLUMNS = 80;

/** A prompt takes a width of 0 literally, and would print one character a line. */
function assumeTerminalWidth(): void {
  if (process.stdout.columns === 0) process.stdout.columns = DEFAULT_COLUMNS;
}

/**
 * Asks the user to confirm. Returns at once with `--yes`.
 *
 * @param declined the message after a no, and without a terminal
 * @throws CommandError `confirmation_required` after a no and without a terminal, `interrupted` after Ctrl-C
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
  const { confirm, isCancel } = await import('@clack/prompts');
  assumeTerminalWidth();
  const answer = await confirm({ message: escapeUnsafe(toOneLine(question)) });
  if (answer === true) return;
  if (isCancel(answer)) throw new CommandError('interrupted', declined, { exit: 'interrupted' });
  throw new CommandError('confirmation_required', declined);
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
  assumeTerminalWidth();
  const typed = await password({ message });
  if (isCancel(typed)) throw new DOMException('Interrupted', 'AbortError');
  return typed;
}

/** Asks the user to choose one of several values. @throws AbortError after Ctrl-C */
export async function askToChoose<Value extends object>(
  message: string,
  options: { value: Value; label: string; hint: string }[],
  initialValue: Value,
): Promise<Value> {
  const { isCancel, select } = await import('@clack/prompts');
  assumeTerminalWidth();
  const chosen = await select<object>({ message, options, initialValue });
  if (isCancel(chosen)) throw new DOMException('Interrupted', 'AbortError');
  return chosen as Value;
}

/**
 * Asks for a line of text.
 *
 * @param findFault returns why a text is refused; the user then corrects it
 * @throws AbortError after Ctrl-C
 */
export async function askForText(
  message: string,
  initialValue: string,
  findFault: (text: string) => string | null,
): Promise<string> {
  const { isCancel, text } = await import('@clack/prompts');
  assumeTerminalWidth();
  const typed = await text({ message, initialValue, validate: (value = '') => findFault(value) ?? undefined });
  if (isCancel(typed)) throw new DOMException('Interrupted', 'AbortError');
  return typed;
}
