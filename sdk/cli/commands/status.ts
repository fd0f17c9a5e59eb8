/** `bulkhead status`: lists the user's plugins and installations. */
import { findLatestVersion } from '../../contract/version-numbers.ts';
import type { Command } from '../command.ts';
import { describeCondition, describeNextStep } from '../condition-text.ts';
import type { Rest } from '../rest.ts';
import type { Installation, Plugin, PluginDetail } from '../rest-types.ts';
import { toOneLine } from '../terminal-text.ts';
import { describeWaitingUpdate } from '../update-text.ts';

/** Plugins that are read at once. Each takes a connection, and an account may have a thousand. */
const READS_AT_ONCE = 8;

export const status: Command = {
  name: 'status',
  summary: 'List your plugins and your installations',
  async run(context) {
    const rest = await context.getRest();
    const plugins = await readDetails(rest, await rest.getAll<Plugin>('/plugins'));
    const installations = await rest.getAll<Installation>('/installations');
    const { output } = context;
    output.printLine(output.paint.bold('Your plugins'));
    for (const { slug, visibility, versions, blockedReason } of plugins) {
      output.printLine(`  ${slug}  ${findLatestVersion(versions)?.semVer ?? 'nothing published'}  ${visibility}`);
      if (blockedReason) output.printLine(`    Blocked by the operator: ${toOneLine(blockedReason)}`);
    }
    if (plugins.length === 0) output.printLine('  none: bulkhead init, then bulkhead publish');
    output.printLine(output.paint.bold('Installed'));
    for (const installation of installations) {
      const { slug, currentSemVer, versionPolicy, required, deprecationMessage } = installation;
      const words = [
        currentSemVer ?? 'draft',
        versionPolicy,
        ...(required ? ['required'] : []),
        describeCondition(installation),
      ];
      output.printLine(`  ${slug}  ${words.join('  ')}`);
      const next = describeNextStep(installation);
      if (next !== null) output.printLine(`    ${next}`);
      const waiting = describeWaitingUpdate(installation);
      if (waiting !== null) output.printLine(`    ${waiting}`);
      if (deprecationMessage !== null)
        output.printLine(`    No longer in the catalog: ${toOneLine(deprecationMessage)}`);
    }
    if (installations.length === 0) output.printLine('  none: bulkhead install <slug>');
    return { plugins, installations };
  },
};

async function readDetails(rest: Rest, plugins: readonly Plugin[]): Promise<PluginDetail[]> {
  const read: PluginDetail[] = [];
  for (let start = 0; start < plugins.length; start += READS_AT_ONCE) {
    const batch = plugins.slice(start, start + READS_AT_ONCE);
    read.push(...(await Promise.all(batch.map(({ id }) => rest.get<PluginDetail>(`/plugins/${id}`)))));
  }
  return read;
}
