/** Prints the state of a sandbox that the Node running this builds. Run by debian-packages.test.ts. */
import { stop as stopEsbuild } from 'esbuild';
import { buildChild } from '../../sandbox-child/build-child.ts';
import { openSandbox } from '../../supervisor/jail/sandbox.ts';

const program = await buildChild();
await stopEsbuild();
const { state } = await openSandbox({ directory: process.env.DIRECTORY ?? '', program, mode: 'require' });
console.log(state);
