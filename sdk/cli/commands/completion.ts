/** `bulkhead completion <shell>`: prints a script that completes commands and options. */
import type { Command } from '../command.ts';
import { renderCompletionScript, shells } from '../completion-script.ts';
import { CommandError } from '../failure.ts';

/** @param listCommands returns all commands, including this one */
export const createCompletionCommand = (listCommands: () => readonly Command[]): Command => ({
  name: 'completion',
  summary: 'Print a completion script for bash, zsh or fish',
  args: [{ name: '<shell>', doc: 'bash, zsh or fish' }],
  examples: ['completion bash > ~/.local/share/bash-completion/completions/bulkhead'],
  async run({ output }, args) {
    const shell = shells.find((name) => name === args.positional[0]);
    if (!shell) throw new CommandError('usage', 'Unknown shell. Use bash, zsh or fish.');
    const script = renderCompletionScript(shell, listCommands());
    if (!output.json) output.write(script);
    return { shell, script };
  },
});
