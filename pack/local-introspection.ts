/** Reads the registrations of a bundle on the author's machine, in the service's child program without grants. */
import type { Introspection } from '../db/jobs/introspections.ts';
import { type Child, startChild } from '../supervisor/children/child.ts';
import { ChildError, HostCallRefusal } from '../supervisor/children/child-errors.ts';
import { makeJail } from '../supervisor/jail/jail.ts';
import { childProgram } from './child-program.ts';
import { isPluginNode } from './node-version.ts';

export interface Introspector {
  /** @param hasFetch whether the package declares hosts */
  introspect(bundle: string, sourceName: string, hasFetch?: boolean): Promise<Introspection>;
  /** Whether a bundle did not load. */
  readonly hasLoadFailed: boolean;
  end(): Promise<void>;
}

/**
 * Starts a child for one bundle. It is the author's own code, so wall L3 (bubblewrap) is optional.
 *
 * @param directory for the child's files
 */
export function startIntrospector(directory: string): Introspector {
  const starting = start(directory);
  // The caller of `introspect` gets this error.
  starting.catch(() => undefined);
  let hasLoadFailed = false;
  return {
    get hasLoadFailed() {
      return hasLoadFailed;
    },
    async introspect(bundle, sourceName, hasFetch = false) {
      try {
        const child = await starting;
        await child.ready.catch((error: Error) => {
          throw createStartError(error, child.stderr());
        });
        const members = hasFetch ? ['http.fetch'] : [];
        const nothing = { members, settings: {}, secretNames: [], expected: null };
        return {
          ok: true,
          ...(await child.load({ bundle, sourceName, ...nothing })),
        } as Introspection;
      } catch (error) {
        if (!(error instanceof ChildError)) throw error;
        hasLoadFailed = true;
        return { ok: false, message: error.message, ...(error.pluginStack ? { stack: error.pluginStack } : {}) };
      }
    },
    async end() {
      const child = await starting.catch(() => null);
      await child?.kill('it was checked');
    },
  };
}

/** The fault is not the package's: no code of it has run. @param output what the process wrote */
function createStartError({ message }: Error, output: string): Error {
  const wrote = output.trim() === '' ? 'It wrote nothing.' : `It wrote:\n${output.trim()}`;
  return new Error(`Node ${process.version} could not start a process for the plugin: ${message}. ${wrote}`);
}

async function start(directory: string): Promise<Child> {
  const jail = makeJail({
    directory,
    program: await childProgram(),
    walls: { node: isPluginNode(), os: false },
    limiter: { kind: 'rlimit', group: () => null, startGroup: () => null },
  });
  return startChild(jail, {
    onHostCall: () =>
      Promise.reject(new HostCallRefusal('not_granted', 'nothing is granted while a package is checked')),
    onLog: () => undefined,
    onExit: () => undefined,
  });
}
