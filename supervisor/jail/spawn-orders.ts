/** What supervisor and spawner say to each other: both are ours, on one machine and of one version. */

/** Follows the numbers of the standard streams, whatever descriptor it is inside. */
export const INSPECTOR = 3;

/** One process to start. */
export interface SpawnOrder {
  /** After `/bin/sh`. */
  readonly args: readonly string[];
  /** Files it gets opened for reading, from descriptor 3 on. */
  readonly files: readonly string[];
  /** Whether bubblewrap says on the next descriptor what it has made; otherwise the process itself is the one inside. */
  readonly tellsInside: boolean;
  /** Whether it gets a socket for its inspector, on the descriptor after that. */
  readonly inspectable: boolean;
  readonly uid?: number;
  readonly gid?: number;
}

export type ToSpawner =
  | { readonly kind: 'spawn'; readonly id: number; readonly order: SpawnOrder }
  /** SIGKILL to the outermost process. */
  | { readonly kind: 'kill'; readonly id: number };

export type FromSpawner =
  /** Comes with the socket of one of its three standard streams, or of its inspector. */
  | { readonly kind: 'stream'; readonly id: number; readonly fd: 0 | 1 | 2 | typeof INSPECTOR }
  /** Process id, on the host, of the one inside. */
  | { readonly kind: 'inside'; readonly id: number; readonly pid: number }
  /** The last of an order, also of one that could not be carried out: without code and signal. */
  | {
      readonly kind: 'ended';
      readonly id: number;
      readonly code: number | null;
      readonly signal: NodeJS.Signals | null;
    };
