/** Which walls can be built on this machine, found out once at start-up by building a jail and running a child in it. */
import { join } from 'node:path';
import { findProgram } from '../../service/settings/search-path.ts';
import { type Child, startChild } from '../children/child.ts';
import { type Jail, type JailOptions, makeJail } from './jail.ts';
import { findLimiter, type LimiterKind } from './limiter.ts';

export type SandboxMode = 'auto' | 'require' | 'off';
/** `degraded`: L3 is wanted and cannot be built. `off`: the operator does without it. */
export type SandboxState = 'full' | 'degraded' | 'off';

export interface Sandbox {
  readonly state: SandboxState;
  /** What to do about it, one sentence; null when the sandbox is full. */
  readonly missing: string | null;
  readonly limiter: LimiterKind;
  /** The host user children run as; null: the supervisor's own, as an unprivileged stranger in a user namespace. */
  readonly runAs: number | null;
  readonly jail: Jail;
  /** For children whose owners debug them; null: there are none. */
  readonly inspectable?: Jail | null;
}
export interface SandboxOptions
  extends Pick<
    JailOptions,
    'directory' | 'program' | 'heapMegabytes' | 'residentMegabytes' | 'openFiles' | 'threads' | 'cpuWeight'
  > {
  readonly mode: SandboxMode;
  /** The program of `buildInspectedChild`, where owners may debug their drafts. */
  readonly inspectedProgram?: string | null;
  /** Absolute path; null looks along the search path. */
  readonly bubblewrap?: string | null;
}

/** A user that owns nothing: of the range that systemd hands out and takes back, so no package claims it. */
const NOBODYS_UID = 64_321;
/** Last words of a failed start that are passed on, characters. */
const WORDS_MAX = 300;

/**
 * Builds a jail, proves it with one child, and answers what there is.
 *
 * @throws with the sentence of `missing` where `mode` is `require` and the sandbox is not full
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const limiter = findLimiter();
  const bare = (state: SandboxState, missing: string): Sandbox => ({
    ...{ state, missing, limiter: limiter.kind, runAs: null },
    jail: makeJail({ ...options, limiter, bubblewrap: '', walls: { node: true, os: false } }),
  });
  if (options.mode === 'off')
    return bare('off', 'The sandbox is switched off (SANDBOX=off): only your own plugins run.');
  const bubblewrap = options.bubblewrap ?? findProgram('bwrap');
  let missing = 'install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap) and start again';
  if (bubblewrap !== null) {
    for (const runAs of process.getuid?.() === 0 ? [NOBODYS_UID, null] : [null]) {
      const jail = makeJail({ ...options, limiter, bubblewrap, runAs });
      const failure = await tryOut(jail);
      if (failure === null) {
        const inspectable = inspectableJail(options, { limiter, bubblewrap, runAs });
        return { state: 'full', missing: null, limiter: limiter.kind, runAs, jail, inspectable };
      }
      missing = remedy(failure);
    }
  }
  if (options.mode === 'require') throw new Error(`SANDBOX=require, and no sandbox can be built: ${missing}.`);
  const sentence = `${missing}: until then only your own plugins run, those of other accounts do not.`;
  return bare('degraded', sentence.charAt(0).toUpperCase() + sentence.slice(1));
}

/** The same walls with a door for the inspector. Without wall L3 there is none: it is what holds who has the inspector. */
function inspectableJail(
  { inspectedProgram, ...options }: SandboxOptions,
  found: Pick<JailOptions, 'limiter' | 'runAs'> & { bubblewrap: string },
): Jail | null {
  if (!inspectedProgram) return null;
  const directory = join(options.directory, 'inspected');
  return makeJail({ ...options, ...found, directory, program: inspectedProgram, inspectable: true });
}

/** Why an installation may not start here, one sentence; null where it may. */
export function refusal(sandbox: Pick<Sandbox, 'state' | 'missing'>, plugin: { ownAccount: boolean }): string | null {
  if (sandbox.state === 'full' || plugin.ownAccount) return null;
  return `Plugins of other accounts do not run without the sandbox. ${sandbox.missing}`;
}

/** Starts one child and ends it. Answers its last words if it did not become ready. */
export async function tryOut(jail: Jail): Promise<string | null> {
  let child: Child | null = null;
  try {
    child = startChild(jail, { onHostCall: () => Promise.reject(new Error()), onLog: () => {}, onExit: () => {} });
    await child.ready;
    return null;
  } catch (error) {
    return child?.stderr().trim() || (error as Error).message;
  } finally {
    await child?.kill('it was tried out');
  }
}

function remedy(failure: string): string {
  const words = failure.split('\n').at(-1)?.slice(-WORDS_MAX) ?? '';
  if (/user namespace|uid map|No permissions to creat|clone|unshare|Operation not permitted/i.test(failure)) {
    return `allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that permits unshare and mount) and start again, as bubblewrap says “${words}”`;
  }
  return `the sandbox could not be built, as bubblewrap says “${words}”`;
}
