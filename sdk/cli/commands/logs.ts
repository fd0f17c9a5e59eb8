/** `bulkhead logs`: prints the log of an installation. */
import { logLevels } from '../../contract/protocol.ts';
import { type Command, LISTED_MAX } from '../command.ts';
import { BEFORE_FIRST_LINE, followLines, formatLine, readLastLines } from '../log-lines.ts';
import { requireInstallation } from '../lookup.ts';

const LINES = 50;

export const logs: Command = {
  name: 'logs',
  summary: 'Show the log of an installation',
  args: [{ name: '<slug>', doc: 'slug of the plugin, or id of the installation' }],
  options: [
    { flags: '-f, --follow', doc: 'print new lines until Ctrl-C' },
    { flags: '-n, --lines <number>', doc: `number of lines (default: ${LINES})` },
    { flags: '--level <level>', doc: 'lines of this level only (repeatable)', repeatable: true, choices: logLevels },
    { flags: '--session <id>', doc: 'lines of this session only' },
  ],
  examples: ['logs weather -f', 'logs weather --level error --level warn --json'],
  printsItems: true,
  endsWithOutput: true,
  async run(context, args) {
    const { output, signal } = context;
    const count = args.wholeNumber('lines', { from: 1, to: LISTED_MAX, preset: LINES });
    const rest = await context.getRest();
    const { id } = await requireInstallation(rest, args.positional[0] ?? '');
    const filter = { installationId: id, levels: args.list('level'), sessionId: args.text('session') };
    const lines = await readLastLines(rest, filter, count);
    for (const line of lines) output.printItem(line, formatLine(line, output.paint));
    if (!args.flag('follow')) return undefined;
    const after = lines.at(-1)?.id ?? BEFORE_FIRST_LINE;
    for await (const line of followLines(rest, filter, { after, signal })) {
      output.printItem(line, formatLine(line, output.paint));
    }
    return undefined;
  },
};
