/** One jail for all fixtures of a process, as a supervisor has one: opening it tries the walls of this machine, which takes 100 ms. */
import { join } from 'node:path';
import { openSandbox, type Sandbox } from '../../supervisor/jail/sandbox.ts';
import { childPrograms, inspectedChildProgram } from '../runner/child-program.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { getRootTest } from '../runner/leak-guard.ts';

let sandbox: Promise<Sandbox> | undefined;

/** Opens it with the first call. */
export function openSharedSandbox(): Promise<Sandbox> {
  sandbox ??= open();
  return sandbox;
}

async function open(): Promise<Sandbox> {
  const directory = join(await temporaryFolder(getRootTest()), 'sandbox');
  const programs = { ...(await childPrograms()), inspectedProgram: await inspectedChildProgram() };
  return openSandbox({ mode: 'auto', directory, ...programs });
}
