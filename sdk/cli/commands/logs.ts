/** `bulkhead logs`: what an installation wrote, and what is written from now on. */
import type { Command } from '../command.ts';
import { followLines, formatLine, readLastLines } from '../log-lines.ts';
import { requireInstallation } from '../own-plugins.ts';

const LINES = 50;

export const logs: Command = {
  name: 'logs',
  summary: 'Show what an installation logs',
  args: [{ name: '<slug>', doc: 'of an installed plugin, or the id of its installation' }],
  options: [
    { flags: '-f, --follow', doc: 'go on with every line that is written, until Ctrl-C' },
    { flags: '-n, --lines <number>', doc: `how many of the last lines, ${LINES} if it is not said` },
    { flags: '--level <level>', doc: 'debug, info, warn or error; may be given again', many: true },
    { flags: '--session <id>', doc: 'of this session only' },
  ],
  examples: ['logs weather -f', 'logs weather --level error --level warn --json'],
  async run(context, given) {
    const { output, signal } = context;
    const rest = await context.rest();
    const { id } = await requireInstallation(rest, given.args[0] ?? '');
    const filter = { installationId: id, levels: given.list('level'), sessionId: given.text('session') };
    const lines = await readLastLines(rest, filter, Number(given.text('lines') ?? LINES));
    for (const line of lines) output.item(line, formatLine(line, output.paint));
    if (!given.flag('follow')) return undefined;
    const after = lines.at(-1)?.id;
    for await (const line of followLines(rest, filter, { after, signal })) {
      output.item(line, formatLine(line, output.paint));
    }
    return undefined;
  },
};
