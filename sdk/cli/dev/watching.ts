/** Watches a folder: one signal for all the writes of one save. */
import { basename, relative } from 'node:path';

/** Editors write a file in several steps, and several files at once. Milliseconds. */
const SETTLE_MS = 40;
const LEFT_OUT = /(^|\/)(node_modules|dist|coverage|\.[^/]+)(\/|$)/;

/**
 * Calls `changed` whenever something in the folder was written, and not again before that call has resolved.
 *
 * @returns resolves when it watches; its value ends it
 */
export async function watchFolder(folder: string, changed: () => Promise<void>): Promise<() => Promise<void>> {
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
    running = changed().finally(() => {
      running = null;
      if (again) {
        again = false;
        run();
      }
    });
  };
  const watcher = watch(folder, {
    ignoreInitial: true,
    ignored: (path) => basename(path) !== '' && LEFT_OUT.test(relative(folder, path).replaceAll('\\', '/')),
  });
  watcher.on('all', () => {
    if (timer) clearTimeout(timer);
    timer = setTimeout(run, SETTLE_MS);
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
