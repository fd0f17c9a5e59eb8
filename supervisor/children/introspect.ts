/** Finds out what a bundle registers, by running it once in a jail without grants. */
import type { Jail } from '../jail/jail.ts';
import { type Child, type Loaded, startChild } from './child.ts';
import { HostCallRefusal } from './child-errors.ts';
import { waitUntilReady } from './start-failure.ts';

interface IntrospectOptions {
  /** Whether the package declares hosts: SDKs take `fetch` when their client is made, often while the file loads. Default: false. */
  readonly hasFetch?: boolean | undefined;
  /** Called with the child. */
  readonly onStart?: (child: Child) => void;
  /** Default: `limits.loadBudgetMs`. */
  readonly loadWithinMs?: number | undefined;
}

/**
 * Loads a bundle in a child of its own, which has ended when this settles.
 *
 * @param sourceName the bundle's name in stack traces
 * @throws NotReadyError, or ChildError: `load` with the plugin's own message and stack, `timeout` over `loadWithinMs`, or `dead`
 */
export async function introspect(
  jail: Jail,
  bundle: string,
  sourceName: string,
  { hasFetch = false, onStart, loadWithinMs }: IntrospectOptions = {},
): Promise<Loaded> {
  const child: Child = startChild(jail, {
    // Log lines of code that is not installed yet have no reader.
    onHostCall: () => Promise.reject(new HostCallRefusal('not_granted', 'nothing is granted while a package is read')),
    onLog: () => {},
    onExit: () => {},
  });
  onStart?.(child);
  try {
    await waitUntilReady(child);
    return await child.load(
      { bundle, sourceName, members: hasFetch ? ['http.fetch'] : [], settings: {}, secretNames: [], expected: null },
      loadWithinMs,
    );
  } finally {
    await child.kill('it was read');
  }
}
