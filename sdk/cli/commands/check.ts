/** `bulkhead check`: runs all checks of a publish on this machine. */
import type { Command } from '../command.ts';
import { formatDiscovered } from '../discovered.ts';
import { readPackageFolder } from '../package-folder.ts';
import type { Discovered } from '../rest-types.ts';

export const check: Command = {
  name: 'check',
  summary: 'Run all checks of a publish, without a service',
  args: [{ name: '[folder]', doc: 'folder with readme.md and index.ts (default: the current folder)' }],
  options: [{ flags: '--slug <slug>', doc: 'slug of the plugin (default: from package.json or the folder’s name)' }],
  examples: ['check', 'check plugins/weather --json'],
  async run({ folder, output, localTools, outputIds, signal }, args) {
    const startedAt = performance.now();
    const { slug, files, warnings } = await readPackageFolder(folder, args.positional[0], args.text('slug'), outputIds);
    for (const warning of warnings) output.printWarning(warning);
    const found = await localTools.check(files, slug, signal);
    const ms = Math.round(performance.now() - startedAt);
    for (const line of formatDiscovered(found.discovered as unknown as Discovered, found.capabilities))
      output.printLine(line);
    for (const warning of found.warnings) output.printWarning(warning);
    output.printLine(
      `${output.paint.green('ok')} ${found.name}: ${files.length} files, ${found.sizeBytes} bytes, checked in ${ms} ms`,
    );
    return {
      ok: true,
      slug,
      ...found,
      warnings: [...warnings, ...found.warnings],
      files: files.map(({ path }) => path),
      ms,
    };
  },
};
