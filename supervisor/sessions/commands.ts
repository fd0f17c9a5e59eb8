/** The commands of an account's plugins, written as code or as a prompt: lists and runs them. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import { callSurface, findRunning, STOPPED_PLUGIN, toProblem } from '../calls/surface-call.ts';
import { fillPrompt, type PromptText, promptCommands, readText } from './prompt-texts.ts';
import type { SessionServices } from './session-services.ts';

interface Command {
  readonly plugin: InstalledPlugin;
  readonly name: string;
  readonly description: string;
  /** Null: code. */
  readonly prompt: PromptText | null;
}

/** All commands of an account's installations. Code wins over a prompt of the same name. */
export function listCommands(plugins: readonly InstalledPlugin[]): Command[] {
  return plugins.flatMap((plugin) => {
    const code = Object.entries(plugin.registrations.commands).map(([name, { description }]) => ({
      plugin,
      name,
      description,
      prompt: null,
    }));
    const prompts = promptCommands(plugin)
      .filter(({ name }) => !Object.hasOwn(plugin.registrations.commands, name))
      .map((prompt) => ({ plugin, name: prompt.name, description: prompt.description, prompt }));
    return [...code, ...prompts];
  });
}

/** The text that a command makes of its input. @throws Problem */
export async function runCommand(
  services: SessionServices,
  session: Session,
  command: Command,
  input: string,
  signal: AbortSignal,
): Promise<string> {
  const { plugin } = command;
  const name = formatFullName(plugin, command.name);
  if (command.prompt) {
    if (!(await findRunning(services, plugin))) throw toProblem(name, STOPPED_PLUGIN);
    return fillPrompt(await readText(services.blobs, command.prompt), input);
  }
  const result = await callSurface(services, {
    kind: 'commands',
    name: command.name,
    plugin,
    session,
    signal,
    fields: { input },
  });
  if (result.kind !== 'answered') throw toProblem(name, result);
  return (result.answer as { readonly text: string }).text;
}
