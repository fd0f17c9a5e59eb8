/** `bulkhead uninstall`: shows what an uninstall deletes, and uninstalls a plugin. */
import { hasRequiredChecks } from '../../contract/ending-checks.ts';
import type { Command } from '../command.ts';
import { requireInstallation } from '../lookup.ts';
import type { Agent, Installation } from '../rest-types.ts';
import { askToConfirm } from '../terminal-prompts.ts';
import { toOneLine } from '../terminal-text.ts';

export const uninstall: Command = {
  name: 'uninstall',
  summary: 'Uninstall a plugin after showing what is deleted with it',
  args: [{ name: '<plugin>', doc: 'slug of the plugin, or id of the installation' }],
  options: [{ flags: '-y, --yes', doc: 'uninstall without asking; needed without a terminal' }],
  async run(context, args) {
    const { output } = context;
    const rest = await context.getRest();
    const installation = await requireInstallation(rest, args.positional[0] ?? '');
    const { id, slug } = installation;
    const agents = (await rest.getAll<Agent>('/agents')).filter(({ installationId }) => installationId === id);
    output.printLine(`${slug} is notified first. Then these are removed permanently:`);
    for (const line of listRemoved(installation, agents)) output.printLine(`  ${line}`);
    await askToConfirm(context, args, `Uninstall ${slug}?`, 'Nothing was uninstalled.');
    await rest.delete(`/installations/${id}`);
    output.printLine(`${output.paint.green('uninstalled')} ${slug}`);
    return { uninstalled: id, slug };
  },
};

/** Lists what an uninstall removes. The console's dialog has the same list. */
function listRemoved(installation: Installation, agents: readonly Agent[]): string[] {
  const { channels, secretNames } = installation;
  const names = (named: readonly { readonly name: string }[]) => named.map(({ name }) => toOneLine(name)).join(', ');
  return [
    agents.length === 0
      ? 'its agents (it has none), with all their sessions'
      : `its agents: ${names(agents)}, with all their sessions`,
    channels.length === 0
      ? 'its channels (it has none)'
      : `its channels: ${names(channels)}, with all their sessions, also those that another agent answers. Their addresses stop working`,
    'its webhook requests and replies that wait: they become dead letters and cannot be replayed',
    ...(hasRequiredChecks(installation)
      ? ['its checks, which you require: messages and turns continue without them']
      : []),
    'its live connections and its stored data',
    secretNames.length === 0 ? 'its secrets (not set)' : `its secrets: ${secretNames.join(', ')}`,
  ];
}
