/**
 * What commands need of the host's own code. It is handed in (`pack/bulkhead.ts` does it), because the SDK imports nothing
 * of the host, and a check on the author's machine has to be the very code that the service runs.
 */
import type { ProblemLocation } from '../contract/errors.ts';

/** A file of a package, where it lies on the author's disk. */
export interface FolderFile {
  /** Inside the package, `/` between names. */
  readonly path: string;
  /** Absolute. */
  readonly at: string;
}
export interface CheckedPackage {
  readonly name: string;
  readonly description: string;
  readonly sourceSha256: string;
  readonly sizeBytes: number;
  /** All of them, declared and registered. */
  readonly capabilities: readonly string[];
  readonly discovered: Readonly<Record<string, unknown>>;
  readonly warnings: readonly string[];
}
export type CheckOutcome =
  | { readonly ok: true; readonly found: CheckedPackage }
  /** `code` and `message` are those that a publish would answer with. */
  | {
      readonly ok: false;
      readonly code: string;
      readonly message: string;
      readonly errors: readonly ProblemLocation[];
    };

export interface Toolbox {
  /** Does all that a publish does before it keeps anything. */
  check(files: readonly FolderFile[], slug: string): Promise<CheckOutcome>;
}
