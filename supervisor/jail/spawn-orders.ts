/** Messages between the supervisor and the spawner process. Both are trusted and of the same version. */

/** Number of the inspector's stream in messages, after the standard streams; not its descriptor inside. */
export const INSPECTOR = 3;

/** One process to start. */
export interface SpawnOrder {
  /** Arguments of `/bin/sh`. */
  readonly args: readonly string[];
  /** Files to open for reading, from descriptor 3 on. */
  readonly files: readonly string[];
  /** Whether bubblewrap reports the process inside on the next descriptor; otherwise the process itself is the one inside. */
  readonly reportsInside: boolean;
  /** Whether the process gets a socket for its inspector, on the descriptor after that. */
  readonly inspectable: boolean;
  readonly uid?: number;
  readonly gid?: number;
}

export type ToSpawner =
  | { readonly kind: 'spawn'; readonly id: number; readonly order: SpawnOrder }
  /** Sends SIGKILL to the outermost process. */
  | { readonly kind: 'kill'; readonly id: number };

export type FromSpawner =
  /** Sent with the socket of a standard stream or of the inspector. */
  | { readonly kind: 'stream'; readonly id: number; readonly fd: 0 | 1 | 2 | typeof INSPECTOR }
  /** Process id of the process inside, on the host. */
  | { readonly kind: 'inside'; readonly id: number; readonly pid: number }
  /** The last message of an order. Without code and signal if the process could not be started. */
  | {
      readonly kind: 'ended';
      readonly id: number;
      readonly code: number | null;
      readonly signal: NodeJS.Signals | null;
      /** CPU time of the process and of those that it waited for, milliseconds. */
      readonly processorMs: number;
    };
