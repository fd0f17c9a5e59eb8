/** Writes whole files: a full disk or a killed process leaves what was there before. */
import { randomUUID } from 'node:crypto';
import { chmod, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';

/** Readable and writable for their owner only. */
export const PRIVATE_FILE = 0o600;
/** The user's umask limits it. */
const SHARED_FILE = 0o666;

/**
 * Writes a file, or replaces the one that is there. A symbolic link to a file stays, and the file is replaced.
 *
 * @param mode of the file. Default: that of the file before, or what the user's umask allows
 */
export async function replaceFile(path: string, content: string | Uint8Array, mode?: number): Promise<void> {
  const target = await realpath(path).catch(() => path);
  const kept = mode ?? (await stat(target).catch(() => null))?.mode;
  // Beside the file, because renaming is atomic only within a file system. Backups leave out files with this ending.
  const temporary = `${target}.${randomUUID()}.new`;
  try {
    // `wx` follows no link that another user of the folder left. `flush`: the name must not lead to an empty file after a power failure.
    await writeFile(temporary, content, { flag: 'wx', flush: true, mode: (kept ?? SHARED_FILE) & 0o777 });
    // The umask may have removed permissions that the file had.
    if (kept !== undefined) await chmod(temporary, kept & 0o7777);
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
}
