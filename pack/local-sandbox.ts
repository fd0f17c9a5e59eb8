/** The sandbox of the author's process, with all walls that the machine can build. Created once and shared. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeTemporaryFolder } from '../sdk/cli/temporary-folder.ts';
import type { Spare } from '../supervisor/children/spare-children.ts';
import { openSandbox, type Sandbox } from '../supervisor/jail/sandbox.ts';
import { childProgram } from './child-program.ts';
import { isPluginNode, NODE_MAJOR } from './node-version.ts';

interface Shared {
  users: number;
  isChildTaken: boolean;
  readonly opened: Promise<{ readonly sandbox: Sandbox; readonly directory: string }>;
}
let shared: Shared | null = null;
let isWarned = false;

export interface BorrowedSandbox {
  readonly sandbox: Sandbox;
  /** For files of all callers; removed with the last user of the sandbox. */
  readonly directory: string;
  /** Returns the child that proved the walls, for a plugin to run in; null if another one has it. */
  takeChild(): Spare | null;
  release(): Promise<void>;
}

/** Builds the walls, or shares those of another open plugin. @throws Error on a Node older than the plugins' */
export async function borrowSandbox(): Promise<BorrowedSandbox> {
  if (!isPluginNode())
    throw new Error(
      `Plugins run on Node ${NODE_MAJOR} and this is ${process.version}: run the tests with Node ${NODE_MAJOR}.`,
    );
  shared ??= { users: 0, isChildTaken: false, opened: open() };
  const borrowed = shared;
  borrowed.users += 1;
  const release = async (): Promise<void> => {
    borrowed.users -= 1;
    if (borrowed.users > 0) return;
    if (shared === borrowed) shared = null;
    const made = await borrowed.opened.catch(() => null);
    if (!made) return;
    if (!borrowed.isChildTaken) await made.sandbox.spare?.child.kill('no plugin needed it');
    await rm(made.directory, { recursive: true, force: true });
  };
  try {
    const opened = await borrowed.opened;
    const takeChild = (): Spare | null => {
      const { spare = null } = opened.sandbox;
      if (borrowed.isChildTaken || spare?.child.state === 'dead') return null;
      borrowed.isChildTaken = true;
      return spare;
    };
    return { ...opened, takeChild, release };
  } catch (error) {
    await release();
    throw error;
  }
}

async function open() {
  const directory = await makeTemporaryFolder('bulkhead-testing-', 'the program that runs the plugin');
  try {
    const program = await childProgram();
    const sandbox = await openSandbox({
      mode: 'auto',
      directory: join(directory, 'jail'),
      program,
      isUsersOwn: true,
      keepsChild: true,
    });
    warnOnce(sandbox);
    return { sandbox, directory };
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

function warnOnce({ missing }: Sandbox): void {
  if (missing === null || isWarned) return;
  isWarned = true;
  process.emitWarning(
    `The plugin runs in its realm and under Node’s permission model, without the operating system’s wall. ${missing}`,
    'BulkheadWarning',
  );
}
