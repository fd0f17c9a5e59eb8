/** A supervisor that a test kills: starts three children, one of them in an endless loop, and prints their process ids. */

import { startChild } from '../../../supervisor/children/child.ts';
import { makeJail } from '../../../supervisor/jail/jail.ts';
import { childProgram } from '../../runner/child-program.ts';

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
process.send?.(children.map((child) => child.pid));
