/** Chooses where tests keep their databases and folders. */
import { readFile, statfs } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';

/**
 * Linux's file system in memory. A new database is 500 files: to make and remove them costs 30 ms of processor time there,
 * and 200 ms on ext4, which searches for inodes that were not deleted recently.
 */
const MEMORY_FOLDER = '/dev/shm';
/** Its line in the table of mounts, with the options. */
const MOUNT = new RegExp(`^\\S+ ${MEMORY_FOLDER} tmpfs (\\S+)`, 'm');
/** More than a whole run takes: its databases, DATA_DIRs and the unpacked browser. */
const NEEDED_BYTES = 4 * 2 ** 30;

/** A folder in memory if there is enough for a whole run and programs may be run from there, else the system's own. */
export async function chooseTemporaryFolder(): Promise<string> {
  try {
    const [, options = ''] = MOUNT.exec(await readFile('/proc/self/mounts', 'utf8')) ?? [];
    const isWritable = options.split(',').includes('rw') && !options.split(',').includes('noexec');
    const { bavail, bsize } = await statfs(MEMORY_FOLDER);
    const fits = bavail * bsize >= NEEDED_BYTES && freemem() >= 2 * NEEDED_BYTES;
    return isWritable && fits ? MEMORY_FOLDER : tmpdir();
  } catch {
    // Not Linux.
    return tmpdir();
  }
}

/** `f_type` of a file system in memory. */
const TMPFS = 0x01021994;

/** Returns a folder for temporary files that is on a disk. @throws Error if no such folder exists */
export async function chooseDiskFolder(): Promise<string> {
  for (const folder of [tmpdir(), '/var/tmp']) if ((await statfs(folder)).type !== TMPFS) return folder;
  throw new Error(`${tmpdir()} and /var/tmp are in memory. Set TMPDIR to a folder on a disk.`);
}
