/** Makes a process that root starts act as the owner of DATA_DIR. */
import { accessSync, constants, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));

/**
 * Root would create files that the owner of DATA_DIR could not read: keys, and PostgreSQL's, which it gives to the user that
 * it runs as. So this process, and all that it starts, become the owner's. Does nothing for other users, and for a folder
 * that is missing or root's.
 *
 * @throws Error with one sentence when the owner may not read the program
 */
export function actAsOwner(dataDir: string): void {
  const { getuid, setgroups, setgid, setuid } = process;
  if (getuid?.() !== 0 || !setgroups || !setgid || !setuid) return;
  const found = statSync(dataDir, { throwIfNoEntry: false });
  if (found === undefined || found.uid === 0) return;
  setgroups([found.gid]);
  setgid(found.gid);
  setuid(found.uid);
  try {
    accessSync(PROJECT, constants.R_OK | constants.X_OK);
  } catch {
    throw new Error(
      `DATA_DIR ${dataDir} belongs to user ${found.uid}, who may not read ${PROJECT}. Run this as that user from a folder that they may read, or give DATA_DIR to root with chown -R.`,
    );
  }
}
