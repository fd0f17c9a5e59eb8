/** `bulkhead configure`: sets settings and secrets of an installation. */
import { askHidden } from '../asking.ts';
import type { Command } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { requireInstallation } from '../own-plugins.ts';
import type { Installation } from '../records.ts';

export const configure: Command = {
  name: 'configure',
  summary: 'Set the settings and secrets of an installation',
  args: [{ name: '<plugin>', doc: 'its slug, or the installation’s id' }],
  options: [
    { flags: '-s, --set <name=value>', doc: 'a setting; again for more', many: true },
    {
      flags: '--secret <name[=value]>',
      doc: 'a secret; without a value it is asked for, or read from the environment variable BULKHEAD_SECRET_<name>',
      many: true,
    },
    { flags: '--unset <name>', doc: 'back to the default of a setting; again for more', many: true },
    { flags: '--forget <name>', doc: 'forget a secret; again for more', many: true },
  ],
  examples: ['configure weather --set units=metric --secret apiKey'],
  async run(context, given) {
    const rest = await context.rest();
    const { id, slug } = await requireInstallation(rest, given.args[0] ?? '');
    const settings = Object.fromEntries([
      ...given.list('set').map((text) => pairOf(text)),
      ...given.list('unset').map((name) => [name, null] as const),
    ]);
    const secrets: Record<string, string | null> = {};
    for (const text of given.list('secret')) {
      const [name, value] = text.includes('=') ? pairOf(text) : [text, await readSecret(context, text)];
      secrets[name] = value;
    }
    for (const name of given.list('forget')) secrets[name] = null;
    if (Object.keys(settings).length + Object.keys(secrets).length === 0) {
      const message = 'Say what to set: `--set name=value`, or `--secret name`.';
      throw new CommandError('usage', message, { exit: 'usage' });
    }
    const now = await rest.post<Installation>(`/installations/${id}/configure`, { settings, secrets });
    context.output.say(
      `${slug} is ${now.status.replaceAll('_', ' ')}${now.statusReason ? `: ${now.statusReason}` : ''}`,
    );
    return now;
  },
};

function pairOf(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new CommandError('usage', `“${text}” is no name=value.`, { exit: 'usage' });
}

/** A value on the command line would stay in the shell's history. */
async function readSecret(context: Context, name: string): Promise<string> {
  const variable = `BULKHEAD_SECRET_${name}`;
  const nobody = `Nobody is there to be asked for ${name}: set ${variable}.`;
  return context.env[variable] ?? (await askHidden(context, name, nobody));
}
