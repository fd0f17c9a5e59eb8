/** Describes why a child did not start, without internal error text. */
import { isBlobStoreUnavailable } from '../../db/files/blob-errors.ts';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import type { Child } from './child.ts';
import { ChildError } from './child-errors.ts';

/** The supervisor has no place for the child. Does not count as a failure of the plugin. */
export class NoRoomError extends Error {
  override readonly name = 'NoRoomError';
}

/** The process did not get ready, so no code of the plugin has run: the machine prevented the start. */
export class NotReadyError extends Error {
  override readonly name = 'NotReadyError';
}

/** @throws NotReadyError */
export const waitUntilReady = ({ ready }: Pick<Child, 'ready'>): Promise<void> =>
  ready.catch((error: Error) => {
    throw new NotReadyError(error.message);
  });

/** Returns one sentence for the installation's user. */
export function describeStartFailure(error: unknown): string {
  if (error instanceof ChildError || error instanceof NoRoomError || error instanceof NotReadyError)
    return error.message;
  if (isBlobStoreUnavailable(error)) return 'its bundle cannot be fetched now: the blob store is unavailable';
  // Internal error text stays inside. Damage is reported, because the operator must repair it.
  if (error instanceof Error && /^Blob \S+ is damaged/.test(error.message)) return 'its stored bundle is damaged';
  return 'its bundle cannot be read';
}

export interface StartFailure {
  /** For the installation's user. May hold the plugin's own text. */
  readonly reason: string;
  /** For callers, in the host's words: a model may read it, and no hook judges it. */
  readonly refusal: string;
}

export function describeFailedStart(error: unknown): StartFailure {
  const reason = describeStartFailure(error);
  const isOwnText = error instanceof ChildError && error.kind === 'load';
  return { reason, refusal: isOwnText ? 'its code does not load; its own log says why' : reason };
}

/** Whether the start lacked room, the blob store or the database. The next call tries again. */
export const isStartPostponed = (error: unknown): boolean =>
  error instanceof NoRoomError || isBlobStoreUnavailable(error);

/** Codes of file reads that fail because of the machine: it lacks descriptors or memory, or the file system fails or denies it. */
const MACHINE_ERRORS: readonly unknown[] = ['EMFILE', 'ENFILE', 'EIO', 'ENOMEM', 'EAGAIN', 'ESTALE', 'EACCES'];

/**
 * Whether the machine prevented the start, for a reason that passes. The supervisor tries such a start or update again. Any other
 * failure counts against the installation, for example a damaged or missing bundle: otherwise its deliveries would wait without end.
 */
export const isStartPrevented = (error: unknown): boolean =>
  isStartPostponed(error) ||
  error instanceof NotReadyError ||
  classifyDatabaseError(error) === 'busy' ||
  (error instanceof Error && MACHINE_ERRORS.includes((error as NodeJS.ErrnoException).code));

/** The plugin's stack as data of a log line. */
export const pickPluginStack = (error: unknown): { data?: unknown } =>
  error instanceof ChildError && error.pluginStack ? { data: { stack: error.pluginStack } } : {};
