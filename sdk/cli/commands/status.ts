/** `bulkhead status`: the author's plugins with their versions, and what is installed. */
import type { Command } from '../command.ts';
import { latestOf } from '../next-version.ts';
import type { Installation, Plugin, PluginDetail } from '../records.ts';

export const status: Command = {
  name: 'status',
  summary: 'Show your plugins and your installations',
  async run(context) {
    const rest = await context.rest();
    const own = await rest.all<Plugin>('/plugins');
    const plugins = await Promise.all(own.map(({ id }) => rest.get<PluginDetail>(`/plugins/${id}`)));
    const installations = await rest.all<Installation>('/installations');
    const { output } = context;
    output.say(output.paint.bold('Your plugins'));
    for (const { slug, visibility, versions } of plugins) {
      output.say(`  ${slug}  ${latestOf(versions)?.semVer ?? 'nothing published'}  ${visibility}`);
    }
    if (plugins.length === 0) output.say('  none: bulkhead init, then bulkhead publish');
    output.say(output.paint.bold('Installed'));
    for (const { slug, currentSemVer, versionPolicy, status, statusReason, pendingUpdate } of installations) {
      const what = [currentSemVer ?? 'draft', versionPolicy, status.replaceAll('_', ' ')].join('  ');
      output.say(`  ${slug}  ${what}${statusReason === null ? '' : `: ${statusReason}`}`);
      if (pendingUpdate) output.say(`    ${pendingUpdate.semVer} waits for your consent: bulkhead accept ${slug}`);
    }
    if (installations.length === 0) output.say('  nothing: bulkhead install <slug>');
    return { plugins, installations };
  },
};
