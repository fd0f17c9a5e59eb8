/** Finds out at start-up which walls this machine can build, by running a child in a jail. */
import { join } from 'node:path';
import { findProgram } from '../../service/settings/search-path.ts';
import { type ChildBounds, startChild } from '../children/child.ts';
import { makeSpare, type Spare } from '../children/spare-children.ts';
import { type Jail, type JailOptions, makeJail } from './jail.ts';
import { findLimiter, type LimiterKind } from './limiter.ts';
import { watchResident } from './resident-watch.ts';

export type SandboxMode = 'auto' | 'require' | 'off';
/** `degraded`: L3 cannot be built. `off`: the operator disabled it. */
type SandboxState = 'full' | 'degraded' | 'off';

export interface Sandbox {
  readonly state: SandboxState;
  /** One sentence that tells the operator what to do. Null when the sandbox is full. */
  readonly missing: string | null;
  readonly limiter: LimiterKind;
  /** The host user of children; null: the supervisor's user, which the whole sandbox confines to a user namespace. */
  readonly runAs: number | null;
  /** Set if the walls stand, but children of root have no host user of their own: one sentence that says why. */
  readonly warning?: string | null;
  /** Which plugins may run: without wall L3 those that operators wrote for themselves, or none. */
  readonly admits: 'all' | 'operators' | 'none';
  readonly jail: Jail;
  /** The jail of children that can be inspected; null if inspection is not possible. */
  readonly inspectable?: Jail | null;
  /** The child that proved the walls; null unless `keepsChild`, or without wall L3. */
  readonly spare?: Spare | null;
}
interface SandboxOptions
  extends Omit<JailOptions, 'walls' | 'runAs' | 'bubblewrap' | 'limiter' | 'residentWatch' | 'inspectable'> {
  readonly mode: SandboxMode;
  /** The program of `buildInspectedChild`; null if inspection is disabled. */
  readonly inspectedProgram?: string | null;
  /** Absolute path. Default: found on the search path. */
  readonly bubblewrap?: string | null;
  /** Whether the code belongs to the user who starts this process, as on an author's machine. */
  readonly isUsersOwn?: boolean;
  /** Whether the child that proves the walls becomes `spare`, which the caller ends. Otherwise it is killed. */
  readonly keepsChild?: boolean;
  /** Limits of that child. */
  readonly childBounds?: ChildBounds;
}

/** A user that owns no files: from systemd's range of dynamic users, which no package uses. */
const UNUSED_UID = 64_321;
/** Maximum number of tests of the walls. An inconclusive one is repeated. Each may take ten seconds on a machine that is busy at boot. */
const TESTS_MAX = 3;
/** Length of bubblewrap's error in the message to the operator, characters. */
const ERROR_MAX_CHARS = 300;

/**
 * Builds a jail and tests it with one child.
 *
 * @throws with the sentence of `missing` if `mode` is `require` and the sandbox is not full
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const limiter = findLimiter();
  const residentWatch = watchResident();
  if (options.mode === 'off')
    return openWithoutWall({ ...options, limiter }, 'off', 'The sandbox is disabled (SANDBOX=off)');
  const bubblewrap = options.bubblewrap ?? findProgram('bwrap');
  let missing = 'install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap) and start again';
  let warning: string | null = null;
  if (bubblewrap !== null) {
    for (const runAs of process.getuid?.() === 0 ? [UNUSED_UID, null] : [null]) {
      const found = { limiter, residentWatch, bubblewrap, runAs };
      const jail = makeJail({ ...options, ...found });
      const { failure, spare } = await testWalls(jail, options.childBounds);
      if (failure === null) {
        if (!options.keepsChild) await endTest(spare);
        const inspectable = makeInspectableJail(options, found);
        return {
          state: 'full',
          missing: null,
          limiter: limiter.kind,
          runAs,
          warning,
          admits: 'all',
          jail,
          inspectable,
          spare: options.keepsChild ? spare : null,
        };
      }
      missing = describeRemedy(failure);
      warning = `Plugins have no host user of their own, because the sandbox did not start as user ${runAs} (“${cutError(failure.text)}”). Let that user reach Node and bubblewrap, and start again.`;
    }
  }
  if (options.mode === 'require') throw new Error(`SANDBOX=require, but no sandbox can be built: ${missing}.`);
  const sentence = `${missing.charAt(0).toUpperCase()}${missing.slice(1)}`;
  return openWithoutWall({ ...options, limiter }, 'degraded', sentence);
}

/**
 * Makes the jail without wall L3. Code in it may reach what its host user may, so only operators' own plugins run, and never
 * as root.
 *
 * @param missing what the operator must do, without the end of the sentence
 */
async function openWithoutWall(
  options: SandboxOptions & Pick<JailOptions, 'limiter'>,
  state: 'degraded' | 'off',
  missing: string,
): Promise<Sandbox> {
  const { isUsersOwn = false } = options;
  const runAs = process.getuid?.() === 0 && !isUsersOwn ? UNUSED_UID : null;
  const jail = makeJail({ ...options, bubblewrap: '', walls: { node: true, os: false }, runAs });
  const opened = { state, limiter: jail.limiter, runAs, jail };
  if (isUsersOwn) return { ...opened, admits: 'all', missing: `${missing}.` };
  const tested = runAs === null ? null : await testWalls(jail);
  if (tested) await endTest(tested.spare);
  if (tested?.failure) {
    const error = cutError(tested.failure.text);
    const why = `no plugin runs: it would run as root, because user ${runAs} cannot start Node here (“${error}”)`;
    return { ...opened, admits: 'none', missing: `${missing}: until then ${why}.` };
  }
  const user = runAs === null ? 'with the rights of this service’s user' : `as the unprivileged user ${runAs}`;
  const who = `only plugins that operators wrote run, in their own accounts, ${user}`;
  return { ...opened, admits: 'operators', missing: `${missing}: until then ${who}.` };
}

/** Only wall L3 confines the inspector's user, so there is no inspectable jail without it. */
function makeInspectableJail(
  { inspectedProgram, ...options }: SandboxOptions,
  found: Pick<JailOptions, 'limiter' | 'residentWatch' | 'runAs'> & { bubblewrap: string },
): Jail | null {
  if (!inspectedProgram) return null;
  const directory = join(options.directory, 'inspected');
  return makeJail({
    ...options,
    ...found,
    directory,
    program: inspectedProgram,
    cachedProgram: null,
    inspectable: true,
  });
}

/**
 * Returns why code may not run here, in sentences; null if it may.
 *
 * @param isOperators whether an operator wrote it, and it runs in that operator's account
 */
export function findRefusal(
  { admits, missing }: Pick<Sandbox, 'admits' | 'missing'>,
  isOperators: boolean,
): string | null {
  if (admits === 'all' || (admits === 'operators' && isOperators)) return null;
  return `The plugin does not run without the sandbox. ${missing}`;
}

/** Starts one child and kills it. @returns its stderr or error if it did not become ready; null if it did */
export async function tryOut(jail: Jail): Promise<string | null> {
  const { failure, spare } = await startSpare(jail);
  await endTest(spare);
  return failure?.text ?? null;
}

interface TestFailure {
  /** The child's stderr, or why it ended. */
  readonly text: string;
  /** Whether it shows what is missing. It does not if the child was late or killed, its helper was lost, or no process could be started. */
  readonly isConclusive: boolean;
}
interface WallTest {
  readonly failure: TestFailure | null;
  /** Null if no process could be spawned. */
  readonly spare: Spare | null;
}

/** Starts a child, again if that showed nothing. The child of a failed test has ended. */
async function testWalls(jail: Jail, bounds?: ChildBounds): Promise<WallTest> {
  for (let test = 1; ; test += 1) {
    const tested = await startSpare(jail, bounds);
    if (tested.failure === null) return tested;
    await endTest(tested.spare);
    if (tested.failure.isConclusive || test === TESTS_MAX) return tested;
  }
}

async function startSpare(jail: Jail, bounds?: ChildBounds): Promise<WallTest> {
  let spare: Spare | null = null;
  try {
    spare = makeSpare((handlers) => startChild(jail, handlers, bounds));
    await spare.child.ready;
    return { failure: null, spare };
  } catch (error) {
    const end = await spare?.child.ended;
    const stderr = end?.stderr.trim() ?? '';
    const hasExited = end !== undefined && !end.requested && (end.code !== null || !isKill(end.signal));
    return { failure: { text: stderr || (error as Error).message, isConclusive: stderr !== '' || hasExited }, spare };
  }
}

/** Null: the process could not be started. */
const isKill = (signal: NodeJS.Signals | null): boolean => signal === null || signal === 'SIGKILL';

async function endTest(spare: Spare | null): Promise<void> {
  await spare?.child.kill('the test of the sandbox is over');
}

function describeRemedy({ text, isConclusive }: TestFailure): string {
  const error = cutError(text);
  if (!isConclusive)
    return `the sandbox could not be tested (“${error}”, ${TESTS_MAX} times): see that the machine has processor time and memory left, and start again`;
  if (/user namespace|uid map|No permissions to creat|clone|unshare|Operation not permitted/i.test(text)) {
    return `allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that permits unshare and mount) and start again; bubblewrap reported “${error}”`;
  }
  return `the sandbox could not be built; bubblewrap reported “${error}”`;
}

const cutError = (failure: string): string => failure.split('\n').at(-1)?.slice(-ERROR_MAX_CHARS) ?? '';
