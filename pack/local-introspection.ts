/** What a bundle registers, found out on the author's machine: in the service's own child program, with nothing granted. */
import type { Introspection } from '../db/jobs/introspections.ts';
import { limits } from '../sdk/contract/limits.ts';
import { type Child, startChild } from '../supervisor/children/child.ts';
import { ChildError } from '../supervisor/children/child-errors.ts';
import { WireRefusal } from '../supervisor/children/wire.ts';
import { makeJail } from '../supervisor/jail/jail.ts';
import { childProgram } from './child-program.ts';
import { isPluginNode } from './node-version.ts';

export interface Introspector {
  introspect(bundle: string, sourceName: string): Promise<Introspection>;
  end(): Promise<void>;
}

/**
 * Starts a child at once, for one bundle. It is the author's own code on the author's own machine, so wall L3 is not asked
 * for: bubblewrap need not be there.
 *
 * @param directory for the files it starts from
 */
export function startIntrospector(directory: string): Introspector {
  const starting = start(directory);
  // Whoever introspects is told.
  starting.catch(() => undefined);
  return {
    async introspect(bundle, sourceName) {
      try {
        const child = await starting;
        const nothing = { members: [], settings: {}, secretNames: [], expected: null };
        return {
          ok: true,
          ...(await child.load({ bundle, sourceName, ...nothing }, limits.loadBudgetMs)),
        } as Introspection;
      } catch (error) {
        if (!(error instanceof ChildError)) throw error;
        return { ok: false, message: error.message, ...(error.pluginStack ? { stack: error.pluginStack } : {}) };
      }
    },
    async end() {
      const child = await starting.catch(() => null);
      await child?.kill('it was checked');
    },
  };
}

async function start(directory: string): Promise<Child> {
  const jail = makeJail({
    directory,
    program: await childProgram(),
    walls: { node: isPluginNode(), os: false },
    limiter: { kind: 'rlimit', group: () => null },
  });
  return startChild(jail, {
    onHostCall: () => Promise.reject(new WireRefusal('not_granted', 'nothing is granted while a package is checked')),
    onLog: () => undefined,
    onExit: () => undefined,
  });
}
