/** A supervisor that a test kills: starts three children, one of them in an endless loop, and prints their process ids when that loop runs. */

import { setTimeout as sleep } from 'node:timers/promises';
import { startChild } from '../../../supervisor/children/child.ts';
import { makeJail } from '../../../supervisor/jail/jail.ts';
import { childProgram } from '../../runner/child-program.ts';

/** More than the start of a load takes. */
const SPIN_MS = 100;

const jail = makeJail({ directory: String(process.argv[2]), program: await childProgram() });
const children = [0, 1, 2].map(() =>
  startChild(jail, { onHostCall: () => Promise.resolve(null), onLog: () => undefined, onExit: () => undefined }),
);
await Promise.all(children.map((child) => child.ready));
const [first] = children;
first
  ?.load(
    { bundle: 'for (;;);', sourceName: 'x.js', members: [], settings: {}, secretNames: [], expected: null },
    60_000,
  )
  .catch(() => undefined);
const spunMs = (): number => first?.cpuDemand().hadMs ?? 0;
const before = spunMs();
while (spunMs() < before + SPIN_MS) await sleep(10);
process.send?.(children.map((child) => child.pid));
