/** Watches a folder and reports all writes of one save together. */
import { realpath } from 'node:fs/promises';
import { relative, sep } from 'node:path';
import { isToolFile, isToolFolder } from '../../contract/package-paths.ts';
import { CommandError } from '../failure.ts';
import { type FileId, isOutput } from '../package-folder.ts';

/** Editors write a file in several steps, so changes are debounced. Milliseconds. */
const DEBOUNCE_MS = 40;

/**
 * What to raise, by the code of the system's error. VS Code's documentation has the same number of watches, which take about 1 KB of
 * memory each. Linux allows 128 instances by default.
 */
const LIMITS: Readonly<Record<string, string>> = {
  ENOSPC: 'fs.inotify.max_user_watches=524288',
  EMFILE: 'fs.inotify.max_user_instances=512',
};

export interface FolderWatch {
  /** Calls `onChange` now, or once more after the running call. Resolves when no call is left. */
  run(): Promise<void>;
  /** Rejects with a CommandError when the watcher fails, because it may then miss changes. */
  readonly failed: Promise<never>;
  /** Stops the watcher, and waits for a running `onChange`. */
  stop(): Promise<void>;
}

/**
 * Calls `onChange` after every change of a file that may belong to the package, one call at a time. Does not follow links, which
 * are not part of a package and may lead to folders of any size. Resolves when the watcher is ready.
 *
 * @param outputIds files that the command writes its output to: each call of `onChange` would cause the next one
 * @param onChange never rejects; returns the pause before it is called again without a change, milliseconds, or null
 * @throws CommandError when the folder cannot be watched
 */
export async function watchFolder(
  folder: string,
  outputIds: readonly FileId[],
  onChange: () => Promise<number | null>,
): Promise<FolderWatch> {
  const { watch } = await import('chokidar');
  // The folder itself may be a link, which the watcher would not follow either.
  const root = await realpath(folder);
  let timer: NodeJS.Timeout | null = null;
  let running: Promise<void> | null = null;
  let isWanted = false;
  let isStopped = false;
  const schedule = (ms: number): void => {
    if (timer) clearTimeout(timer);
    timer = setTimeout(run, ms);
  };
  const runWanted = async (): Promise<void> => {
    while (isWanted && !isStopped) {
      isWanted = false;
      const retryMs = await onChange();
      if (retryMs !== null && !isWanted && timer === null && !isStopped) schedule(retryMs);
    }
    running = null;
  };
  const run = (): Promise<void> => {
    if (timer) clearTimeout(timer);
    timer = null;
    isWanted = true;
    running ??= runWanted();
    return running;
  };
  const watcher = watch(root, {
    ignoreInitial: true,
    followSymlinks: false,
    ignored(path, stats) {
      const inFolder = relative(root, path).replaceAll(sep, '/');
      // A folder may have the name of a tool's file.
      const isIgnoredFile = stats?.isFile() === true && (isToolFile(inFolder) || isOutput(outputIds, stats));
      return isIgnoredFile || isToolFolder(inFolder);
    },
  });
  watcher.on('all', () => {
    if (!isStopped) schedule(DEBOUNCE_MS);
  });
  const { promise: failed, reject } = Promise.withResolvers<never>();
  failed.catch(() => undefined);
  // Never removed: an `error` event without a listener ends the process.
  watcher.on('error', (error) => reject(createWatchError(folder, error)));
  const stop = async (): Promise<void> => {
    isStopped = true;
    if (timer) clearTimeout(timer);
    await watcher.close();
    await running;
  };
  try {
    await Promise.race([new Promise<void>((resolve) => watcher.once('ready', resolve)), failed]);
    return { failed, run, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function createWatchError(folder: string, error: unknown): CommandError {
  const { message, code = '' } = error as NodeJS.ErrnoException;
  const limit = Object.hasOwn(LIMITS, code) ? `Raise the limit with \`sudo sysctl ${LIMITS[code]}\`. ` : '';
  return new CommandError(
    'watch_failed',
    `Changes in ${folder} cannot be watched: ${message}. ${limit}Then run \`bulkhead dev\` again.`,
  );
}
