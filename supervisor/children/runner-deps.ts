/** What a runner needs of its fleet, and whom it tells. */
import type { Child } from './child.ts';
import type { InstallationRunner } from './installation-runner.ts';
import type { LoadedChildDeps } from './loaded-child.ts';
import type { Spare } from './spare-children.ts';

export interface RunnerDeps extends LoadedChildDeps {
  /** What an installation may say: see `Allowance`. */
  readonly saidBytesPerSecond: number;
  /** What the restart policy reckons with, milliseconds since the epoch. */
  readonly now: () => number;
  /** A child for a start; throws with the sentence a caller reads when there is no room. */
  takeChild(installationId: string, inspectable: boolean): Promise<Spare>;
  /** The runner's state changed: write it down when convenient. */
  onChange(runner: InstallationRunner): void;
  /** The version that serves changed: what the account's chains are made of. */
  onServing(runner: InstallationRunner): void;
  onChildEnd(reason: string): void;
  onChildStart(seconds: number): void;
  /** An end or a failed start that counts against the plugin. */
  onRestart(runner: InstallationRunner, reason: string): void;
  /** The installation fails for good, with the reason its user reads; null: it works again. */
  onFailed(runner: InstallationRunner, reason: string | null): void;
}

/** Who debugs an installation's child: told which one serves, and when there will be none any more. */
export interface Inspector {
  serve(child: Child): void;
  end(reason: string): void;
}
