/** Watches a folder and reports all writes of one save together. */
import { relative, sep } from 'node:path';
import { isToolFolder } from '../../contract/package-paths.ts';

/** Editors write a file in several steps, so changes are debounced. Milliseconds. */
const DEBOUNCE_MS = 40;

/**
 * Calls `onChange` after every change in the folder, one call at a time. Resolves when the watcher is ready.
 *
 * @returns a function that stops the watcher
 */
export async function watchFolder(folder: string, onChange: () => Promise<void>): Promise<() => Promise<void>> {
  const { watch } = await import('chokidar');
  let timer: NodeJS.Timeout | null = null;
  let running: Promise<void> | null = null;
  let again = false;
  const run = (): void => {
    timer = null;
    if (running) {
      again = true;
      return;
    }
    running = onChange().finally(() => {
      running = null;
      if (again) {
        again = false;
        run();
      }
    });
  };
  const watcher = watch(folder, {
    ignoreInitial: true,
    ignored: (path) => relative(folder, path).split(sep).some(isToolFolder),
  });
  watcher.on('all', () => {
    if (timer) clearTimeout(timer);
    timer = setTimeout(run, DEBOUNCE_MS);
  });
  await new Promise<void>((resolve, reject) => {
    watcher.once('ready', resolve);
    watcher.once('error', reject);
  });
  return async () => {
    if (timer) clearTimeout(timer);
    again = false;
    await watcher.close();
    await running;
  };
}
