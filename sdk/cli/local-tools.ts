/**
 * The interface to code of the service that runs on the author's machine. `pack/local-tools.ts` implements it, because the
 * SDK must not import the service.
 */

/** A file of a package on the author's disk. */
export interface FolderFile {
  /** Path in the package, with `/`. */
  readonly path: string;
  /** Absolute path on disk. */
  readonly at: string;
}
export interface CheckedPackage {
  readonly name: string;
  readonly description: string;
  readonly sourceSha256: string;
  readonly sizeBytes: number;
  /** Declared and registered capabilities. */
  readonly capabilities: readonly string[];
  readonly discovered: Readonly<Record<string, unknown>>;
  /** Names of the settings. */
  readonly settings: readonly string[];
  /** Names of the settings and secrets that an installation needs to run. */
  readonly requiredFields: readonly string[];
  readonly warnings: readonly string[];
}

/** A check of an agent runtime. */
export interface RuntimeCheck {
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Address of the REST interface. */
  readonly rest: string;
  /** Address of the session API. */
  readonly sessions: string;
  readonly token: string;
  readonly only: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Called with each scenario when it was played. */
  readonly onResult: (scenario: RuntimeScenario) => void;
  /** Called with each thing that could not be removed, and why. */
  readonly onNotRemoved: (what: string) => void;
}
export interface RuntimeScenario {
  readonly chapter: string;
  readonly scenario: string;
  readonly verdict: 'held' | 'broken' | 'skipped';
  readonly seen: string | null;
  readonly advice: string | null;
  readonly ms: number;
}

export interface LocalTools {
  /** Requires the two files that every package has, without reading any. @throws CommandError with the code and message of a publish */
  requireLayout(files: readonly FolderFile[]): Promise<void>;
  /** Runs all checks of a publish. @throws CommandError with the code and message of a publish, or the signal's reason */
  check(files: readonly FolderFile[], slug: string, signal: AbortSignal): Promise<CheckedPackage>;
  /** Plays the scenarios against a runtime. @throws Error if it cannot begin */
  conformRuntime(check: RuntimeCheck): Promise<readonly RuntimeScenario[]>;
}
