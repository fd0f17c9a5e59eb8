/** `bulkhead check`: everything a publish checks, without a service. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { openFolder } from '../package-folder.ts';
import type { Discovered } from '../records.ts';
import { surfaceLines } from '../surface.ts';

export const check: Command = {
  name: 'check',
  summary: 'Check a package as a publish would, without a service',
  args: [{ name: '[folder]', doc: 'the folder with readme.md and index.ts; else this one' }],
  options: [{ flags: '--slug <slug>', doc: 'the plugin’s slug; else that of package.json or the folder’s name' }],
  examples: ['check', 'check plugins/weather --json'],
  async run({ folder, output, toolbox }, given) {
    const startedAt = performance.now();
    const { slug, files } = await openFolder(folder, given.args[0], given.text('slug'));
    const outcome = await toolbox.check(files, slug);
    const ms = Math.round(performance.now() - startedAt);
    if (!outcome.ok) {
      const { code, message, errors } = outcome;
      throw new CommandError(code, message, { exit: 'invalidPackage', errors });
    }
    const { found } = outcome;
    for (const line of surfaceLines(found.discovered as unknown as Discovered, found.capabilities)) output.say(line);
    for (const warning of found.warnings) output.say(`${output.paint.yellow('warning')} ${warning}`);
    output.say(
      `${output.paint.green('ok')} ${found.name}: ${files.length} files, ${found.sizeBytes} bytes, checked in ${ms} ms`,
    );
    return { ok: true, slug, ...found, files: files.map(({ path }) => path), ms };
  },
};
