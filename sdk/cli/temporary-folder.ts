/** Folders for files that a command needs only while it runs. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Creates a folder in the one that `TMPDIR` names.
 *
 * @param prefix of its name
 * @param content what the caller writes there, such as `the zip of the package`
 * @throws Error with what to do
 */
export async function makeTemporaryFolder(prefix: string, content: string): Promise<string> {
  const parent = tmpdir();
  return mkdtemp(join(parent, prefix)).catch((cause: NodeJS.ErrnoException) => {
    throw new Error(
      `The folder ${parent} cannot be written (${cause.code}), and ${content} must be written there: set TMPDIR to a folder that this user can write and that has room.`,
      { cause },
    );
  });
}
