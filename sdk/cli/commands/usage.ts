/** `bulkhead usage`: shows what the account keeps. */
import type { Page } from '../../session/api-types.ts';
import type { Command } from '../command.ts';
import type { StoredKind } from '../rest-types.ts';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
/** From this share on the command says how to make room. */
const NEARLY_FULL = 0.9;
const BAR_CHARS = 20;

export const usage: Command = {
  name: 'usage',
  summary: 'Show what your account keeps, how full each quota is, and how to make room',
  examples: ['usage', 'usage --json'],
  async run(context) {
    const rest = await context.getRest();
    const { items } = await rest.get<Page<StoredKind>>('/me/usage');
    const { output } = context;
    for (const { kind, usedBytes, limitBytes, free } of items) {
      const share = limitBytes === null ? 0 : Math.min(1, usedBytes / limitBytes);
      const filled = Math.ceil(share * BAR_CHARS);
      const bar = `${'█'.repeat(filled)}${'░'.repeat(BAR_CHARS - filled)}`;
      const limit = limitBytes === null ? ', no limit' : ` of ${formatBytes(limitBytes)}`;
      output.printLine(`${kind.padEnd(12)} ${output.paint.cyan(bar)} ${formatBytes(usedBytes)}${limit}`);
      if (share >= NEARLY_FULL) output.printLine(`  ${share === 1 ? 'full' : 'nearly full'}: ${free}`);
    }
    return items;
  },
};

function formatBytes(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${Number((bytes / 1024 ** unit).toFixed(1))} ${UNITS[unit]}`;
}
