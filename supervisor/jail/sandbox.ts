/** Finds out at start-up which walls this machine can build, by running a child in a jail. */
import { join } from 'node:path';
import { findProgram } from '../../service/settings/search-path.ts';
import { type Child, startChild } from '../children/child.ts';
import { type Jail, type JailOptions, makeJail } from './jail.ts';
import { findLimiter, type LimiterKind } from './limiter.ts';

export type SandboxMode = 'auto' | 'require' | 'off';
/** `degraded`: L3 cannot be built. `off`: the operator disabled it. */
export type SandboxState = 'full' | 'degraded' | 'off';

export interface Sandbox {
  readonly state: SandboxState;
  /** What the operator must do, one sentence; null when the sandbox is full. */
  readonly missing: string | null;
  readonly limiter: LimiterKind;
  /** The host user of children; null: the supervisor's user, unprivileged in a user namespace. */
  readonly runAs: number | null;
  readonly jail: Jail;
  /** The jail of children that can be inspected; null if inspection is not possible. */
  readonly inspectable?: Jail | null;
}
export interface SandboxOptions
  extends Pick<
    JailOptions,
    | 'directory'
    | 'program'
    | 'heapMegabytes'
    | 'residentMegabytes'
    | 'accountMegabytes'
    | 'openFiles'
    | 'threads'
    | 'cpuWeight'
  > {
  readonly mode: SandboxMode;
  /** The program of `buildInspectedChild`; null if inspection is disabled. */
  readonly inspectedProgram?: string | null;
  /** Absolute path. Default: found on the search path. */
  readonly bubblewrap?: string | null;
}

/** A user that owns no files: from systemd's range of dynamic users, which no package uses. */
const UNUSED_UID = 64_321;
/** Length of bubblewrap's error in the message to the operator, characters. */
const ERROR_MAX_CHARS = 300;

/**
 * Builds a jail and tests it with one child.
 *
 * @throws with the sentence of `missing` if `mode` is `require` and the sandbox is not full
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const limiter = findLimiter();
  const openWithoutWall = (state: SandboxState, missing: string): Sandbox => ({
    state,
    missing,
    limiter: limiter.kind,
    runAs: null,
    jail: makeJail({ ...options, limiter, bubblewrap: '', walls: { node: true, os: false } }),
  });
  if (options.mode === 'off')
    return openWithoutWall('off', 'The sandbox is disabled (SANDBOX=off): only your own plugins run.');
  const bubblewrap = options.bubblewrap ?? findProgram('bwrap');
  let missing = 'install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap) and start again';
  if (bubblewrap !== null) {
    for (const runAs of process.getuid?.() === 0 ? [UNUSED_UID, null] : [null]) {
      const jail = makeJail({ ...options, limiter, bubblewrap, runAs });
      const failure = await tryOut(jail);
      if (failure === null) {
        const inspectable = makeInspectableJail(options, { limiter, bubblewrap, runAs });
        return { state: 'full', missing: null, limiter: limiter.kind, runAs, jail, inspectable };
      }
      missing = describeRemedy(failure);
    }
  }
  if (options.mode === 'require') throw new Error(`SANDBOX=require, but no sandbox can be built: ${missing}.`);
  const sentence = `${missing}: until then only your own plugins run, those of other accounts do not.`;
  return openWithoutWall('degraded', sentence.charAt(0).toUpperCase() + sentence.slice(1));
}

/** Only wall L3 confines the inspector's user, so there is no inspectable jail without it. */
function makeInspectableJail(
  { inspectedProgram, ...options }: SandboxOptions,
  found: Pick<JailOptions, 'limiter' | 'runAs'> & { bubblewrap: string },
): Jail | null {
  if (!inspectedProgram) return null;
  const directory = join(options.directory, 'inspected');
  return makeJail({ ...options, ...found, directory, program: inspectedProgram, inspectable: true });
}

/** Why an installation may not start here, one sentence; null if it may. */
export function refusal(sandbox: Pick<Sandbox, 'state' | 'missing'>, plugin: { ownAccount: boolean }): string | null {
  if (sandbox.state === 'full' || plugin.ownAccount) return null;
  return `Plugins of other accounts do not run without the sandbox. ${sandbox.missing}`;
}

/** Starts one child and kills it. @returns its stderr or error if it did not become ready; null if it did */
export async function tryOut(jail: Jail): Promise<string | null> {
  let child: Child | null = null;
  try {
    child = startChild(jail, { onHostCall: () => Promise.reject(new Error()), onLog: () => {}, onExit: () => {} });
    await child.ready;
    return null;
  } catch (error) {
    return child?.stderr().trim() || (error as Error).message;
  } finally {
    await child?.kill('the test of the sandbox is over');
  }
}

function describeRemedy(failure: string): string {
  const error = failure.split('\n').at(-1)?.slice(-ERROR_MAX_CHARS) ?? '';
  if (/user namespace|uid map|No permissions to creat|clone|unshare|Operation not permitted/i.test(failure)) {
    return `allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that permits unshare and mount) and start again; bubblewrap reported “${error}”`;
  }
  return `the sandbox could not be built; bubblewrap reported “${error}”`;
}
