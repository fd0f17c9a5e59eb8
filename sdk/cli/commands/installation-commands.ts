/** `bulkhead pause`, `resume` and `restart`: stop or start an installation. */
import { hasRequiredChecks } from '../../contract/ending-checks.ts';
import type { Command } from '../command.ts';
import { describeCondition } from '../condition-text.ts';
import { requireInstallation } from '../lookup.ts';
import type { Installation } from '../rest-types.ts';

/** @param describe returns the line to print after success */
const createCommand = (name: string, summary: string, describe: (changed: Installation) => string): Command => ({
  name,
  summary,
  args: [{ name: '<plugin>', doc: 'slug of the plugin, or id of the installation' }],
  async run(context, args) {
    const rest = await context.getRest();
    const { id } = await requireInstallation(rest, args.positional[0] ?? '');
    const changed = await rest.post<Installation>(`/installations/${id}/${name}`);
    context.output.printLine(describe(changed));
    return changed;
  },
});

export const pause = createCommand('pause', 'Stop an installation until you resume it', (changed) => {
  const warning = hasRequiredChecks(changed)
    ? ' You require it, but messages and turns now continue without its checks.'
    : '';
  return `${changed.slug} is paused.${warning} Its webhook requests and events wait: bulkhead resume ${changed.slug}`;
});

export const resume = createCommand(
  'resume',
  'Let a paused installation run again',
  (changed) => `${changed.slug}: ${describeCondition(changed)}`,
);

export const restart = createCommand(
  'restart',
  'Restart an installation, also one that was stopped after repeated failures',
  ({ slug }) => `${slug} stops after its running calls. The next call starts it again.`,
);
