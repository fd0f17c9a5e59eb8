/**
 * The interface to code of the service that runs on the author's machine. `pack/local-tools.ts` implements it, because the
 * SDK must not import the service.
 */
import type { ProblemLocation } from '../contract/errors.ts';

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
  readonly warnings: readonly string[];
}
export type CheckOutcome =
  | { readonly ok: true; readonly found: CheckedPackage }
  /** `code` and `message` are those of a publish. */
  | {
      readonly ok: false;
      readonly code: string;
      readonly message: string;
      readonly errors: readonly ProblemLocation[];
    };

export interface LocalTools {
  /** Runs all checks of a publish. */
  check(files: readonly FolderFile[], slug: string): Promise<CheckOutcome>;
}
