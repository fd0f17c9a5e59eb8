/**
 * Derives the state of an installation, its cause and the next step, as one pure function. The REST interface, the console and
 * the command lines show its result.
 */
import type { VersionStatus } from '../catalog/versions.ts';
import type { LastExit, RuntimeState } from './installation-runtimes.ts';

export const installationStatuses = ['ready', 'needs_configuration', 'paused', 'failed', 'uninstalling'] as const;
export type InstallationStatus = (typeof installationStatuses)[number];

export interface FailedUpdate {
  readonly semVer: string | null;
  readonly reason: string;
  /** Whether the version had been current. */
  readonly rolledBack: boolean;
}

export interface InstallationFacts {
  readonly status: InstallationStatus;
  /** The stored reason of the status. */
  readonly statusReason: string | null;
  /** A clause: an operator blocked the plugin or suspended the account. Null: neither. */
  readonly blockedReason: string | null;
  readonly currentSemVer: string | null;
  readonly currentStatus: VersionStatus | null;
  /** Null: no child was started yet. */
  readonly runtimeState: RuntimeState | null;
  readonly lastExit: Pick<LastExit, 'reason'> | null;
  /** A version that did not start, or was rolled back, while the current one keeps running. */
  readonly failedUpdate: FailedUpdate | null;
  /** One sentence: the action of the user without which an update under way cannot start. Null: none is needed. */
  readonly updateWait: string | null;
  /** Whether the version that the user pinned was yanked before it ran here. */
  readonly hasLostPin: boolean;
}

export const installationStates = [
  'ready',
  'restarting',
  'update_failed',
  'failed',
  'needs_configuration',
  'paused',
  'blocked',
  'uninstalling',
] as const;
/** Actions of the user that change the state. Each has its own operation. */
export const installationActions = ['configure', 'resume', 'restart', 'retry_update'] as const;

interface InstallationState {
  readonly state: (typeof installationStates)[number];
  /** One sentence; null: there is nothing to explain. */
  readonly cause: string | null;
  /** One sentence; null: there is nothing to do. */
  readonly nextStep: string | null;
  readonly action: (typeof installationActions)[number] | null;
}

/** Checks first for the reasons that keep an installation from running, in the order of how much must change before it runs. */
export function describeInstallation(facts: InstallationFacts): InstallationState {
  const { status, statusReason, blockedReason, runtimeState, lastExit, failedUpdate } = facts;
  if (status === 'uninstalling') return makeState('uninstalling', 'It is being removed.', null);
  if (blockedReason !== null)
    return makeState('blocked', pickNotice(facts), 'Ask the operator of this service, or uninstall the plugin.');
  if (status === 'paused') return makeState('paused', statusReason ?? 'It was paused by hand.', 'Resume it.', 'resume');
  if (status === 'needs_configuration')
    return makeState('needs_configuration', statusReason, 'Fill in its settings.', 'configure');
  // The child's state is newer: it is saved before the status.
  if (status === 'failed' || runtimeState === 'failed')
    return makeState('failed', describeFailure(statusReason ?? lastExit?.reason ?? null), FAILED_NEXT, 'restart');
  if (failedUpdate) {
    const running = facts.currentSemVer ?? 'The previous draft';
    return makeState(
      'update_failed',
      describeFailedUpdate(failedUpdate),
      `${running} keeps running. Try the update again.`,
      'retry_update',
    );
  }
  if (runtimeState === 'backoff') {
    const why = lastExit ? `Its process ended: ${endSentence(lastExit.reason)}` : 'Its process ended.';
    return makeState('restarting', why, 'After a pause of about a minute at most, the next call starts it again.');
  }
  return makeState('ready', pickNotice(facts), null);
}

export const describeFailedUpdate = ({ semVer, reason, rolledBack }: FailedUpdate): string =>
  `${semVer ?? 'The draft'} ${rolledBack ? 'was rolled back' : 'did not start'}: ${endSentence(reason)}`;

const FAILED_NEXT =
  'Read its log, fix the cause, and restart it. Ten minutes after its last exit, the next call tries it once more.';

/** The most important notice: a block by the operator, the stored reason, an update that failed or waits, then a yank of the pinned version, or of the running one. */
export function pickNotice({
  blockedReason,
  statusReason,
  failedUpdate,
  updateWait,
  hasLostPin,
  currentStatus,
  currentSemVer,
}: Omit<InstallationFacts, 'status' | 'runtimeState' | 'lastExit'>): string | null {
  if (blockedReason !== null) return endSentence(`${blockedReason.charAt(0).toUpperCase()}${blockedReason.slice(1)}`);
  if (statusReason !== null) return statusReason;
  if (failedUpdate) {
    const running = currentSemVer ?? 'The previous draft';
    return `${describeFailedUpdate(failedUpdate)} ${running} keeps running. Try the update again, or wait for the next version.`;
  }
  if (updateWait !== null) return updateWait;
  if (hasLostPin) {
    const running = currentSemVer ?? 'The draft';
    return `The version that you pinned was withdrawn by its author before it ran here. ${running} keeps running; pin another version, or follow Latest.`;
  }
  if (currentStatus !== 'yanked') return null;
  return `Version ${currentSemVer} was yanked by its author. It keeps running here; move to another version when you can.`;
}

const makeState = (
  state: InstallationState['state'],
  cause: string | null,
  nextStep: string | null,
  action: InstallationState['action'] = null,
): InstallationState => ({ state, cause, nextStep, action });

const describeFailure = (reason: string | null): string =>
  reason === null ? 'Its process ended too often.' : `Its process ended too often: ${endSentence(reason)}`;

const endSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);
