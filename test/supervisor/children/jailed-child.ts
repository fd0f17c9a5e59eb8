/** Starts children for tests in a temporary folder and kills them when the test ends. */

import {
  type Bundle,
  type Child,
  type ChildHandlers,
  type ChildLogLine,
  startChild,
} from '../../../supervisor/children/child.ts';
import type { Outcome } from '../../../supervisor/children/child-calls.ts';
import type { ChildErrorKind } from '../../../supervisor/children/child-errors.ts';
import { type Jail, type JailOptions, makeJail } from '../../../supervisor/jail/jail.ts';
import { childPrograms } from '../../runner/child-program.ts';
import { type Teardown, temporaryFolder } from '../../runner/harness.ts';

export async function testJail(test: Teardown, options: Partial<JailOptions> = {}): Promise<Jail> {
  const directory = await temporaryFolder(test);
  const { program, cachedProgram = null } = options;
  const programs = program === undefined ? await childPrograms() : { program, cachedProgram };
  return makeJail({ directory, ...options, ...programs });
}

export interface TestChild extends Child {
  readonly lines: ChildLogLine[];
}

/** Starts a child that is killed, and has ended, before the test's folder is removed. */
export function testChild(test: Teardown, jail: Jail, handlers: Partial<ChildHandlers> = {}): TestChild {
  const lines: ChildLogLine[] = [];
  const child = startChild(jail, {
    onHostCall: () => Promise.reject(new Error('unexpected host call')),
    onLog: (line) => lines.push(line),
    onExit: () => undefined,
    ...handlers,
  });
  test.teardown(() => child.kill('the test is over'));
  return Object.assign(child, { lines });
}

export const bundleOf = (bundle: string, more: Partial<Bundle> = {}): Bundle => ({
  bundle,
  sourceName: 'plugin.js',
  members: [],
  settings: {},
  secretNames: [],
  expected: null,
  ...more,
});

let serial = 0;
/** Runs a tool of a loaded child. */
export function callTool(child: Child, name: string, args: unknown = {}, budgetMs = 5_000): Promise<Outcome> {
  serial += 1;
  const options = { invocationId: `call-${serial}`, deadlineAt: Date.now() + budgetMs };
  return child.invoke({ kind: 'tools', name }, { arguments: args, settings: {} }, options);
}

/** A bundle with one tool, `run`, whose handler is this code. */
export const toolOf = (code: string): string =>
  `tools.run = { description: 'test', parameters: {}, handler: async (args, ctx) => { ${code} } };`;

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** A pattern for `t.rejects`: a `ChildError` of this kind. */
export const errorOf = (kind: ChildErrorKind): { name: string; kind: ChildErrorKind } => ({ name: 'ChildError', kind });
