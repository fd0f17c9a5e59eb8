/** Changes the user of a process that root started to the owner of DATA_DIR. */
import { accessSync, constants, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));

/**
 * Changes the user and group of this process, and so of all that it starts, to those of DATA_DIR's owner. Otherwise the owner could
 * not read the keys and PostgreSQL's files that root creates. Does nothing if this process is not root's, or DATA_DIR is missing or
 * root's.
 *
 * @throws Error with one sentence if the owner may not read the project's folder
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
