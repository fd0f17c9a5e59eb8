/** `bulkhead completion <shell>`: a script that completes commands and options, made from the table. */
import type { Command } from '../command.ts';
import { completionScript, shells } from '../completion-script.ts';
import { CommandError } from '../failure.ts';

/** @param listed all commands, this one included */
export const completionOf = (listed: () => readonly Command[]): Command => ({
  name: 'completion',
  summary: 'Print a completion script for bash, zsh or fish',
  args: [{ name: '<shell>', doc: 'bash, zsh or fish' }],
  examples: ['completion bash > ~/.local/share/bash-completion/completions/bulkhead'],
  async run({ output }, given) {
    const shell = shells.find((name) => name === given.args[0]);
    if (!shell) throw new CommandError('usage', 'There are scripts for bash, zsh and fish.', { exit: 'usage' });
    output.raw(completionScript(shell, listed()));
    return undefined;
  },
});
