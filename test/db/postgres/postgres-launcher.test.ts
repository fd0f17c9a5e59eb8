import t from 'tap';
import { findBinaries } from '../../../db/postgres/binaries.ts';
import { chooseLauncher, rootLaunchers, userLaunchers } from '../../../db/postgres/launcher.ts';

const { postgres } = await findBinaries();
const missing = { prefix: ['no-such-program-anywhere'], owner: null };
const refusing = { prefix: ['false'], owner: null };
const working = { prefix: ['env'], owner: 5 };

t.test('chooses the first launcher that works', async (t) => {
  t.equal(chooseLauncher(postgres, [missing, refusing, working]), working);
  t.throws(() => chooseLauncher(postgres, [missing, refusing]), { message: /does not run as root/ });
});

t.test('never starts as root', async (t) => {
  const isRoot = process.getuid?.() === 0;
  const chosen = chooseLauncher(postgres);
  t.ok((isRoot ? rootLaunchers : userLaunchers).includes(chosen));
  for (const { prefix } of rootLaunchers) t.ok(prefix.some((word) => word === '--user' || word.startsWith('--reuid=')));
});
