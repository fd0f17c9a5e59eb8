/** Writes whole files: a full disk or a killed process leaves what was there before. */
import { chmod, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';

/** Readable and writable for their owner only. */
export const PRIVATE_FILE = 0o600;

/**
 * Writes a file, or replaces the one that is there. A symbolic link stays, and the file that it leads to is replaced.
 *
 * @param mode of the file. Default: that of the file before, or what the user's umask allows
 */
export async function replaceFile(path: string, content: string | Uint8Array, mode?: number): Promise<void> {
  const target = await realpath(path).catch(() => path);
  const kept = mode ?? (await stat(target).catch(() => null))?.mode;
  // Beside the file, because renaming is atomic only within a file system.
  const temporary = `${target}.${process.pid}`;
  try {
    await writeFile(temporary, content, mode === undefined ? {} : { mode });
    if (kept !== undefined) await chmod(temporary, kept & 0o7777);
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
}
