/**
 * Remembers which drafts of a plugin `dev` may replace, in a file of the user's configuration folder. Any other draft may be the
 * only copy of its code.
 */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeFolder } from '../../files/make-folder.ts';

export class SavedDraftFile {
  readonly #path: string;

  /**
   * @param beside a file of the configuration folder
   * @param url address of the service
   */
  constructor(beside: string, url: string, pluginId: string) {
    // A file for each plugin: commands that run at the same time do not overwrite each other's entries.
    const name = createHash('sha256').update(`${url}\n${pluginId}`).digest('hex');
    this.#path = join(dirname(beside), 'drafts', name);
  }

  /** Returns `sourceSha256` of each draft. Empty: this computer has saved none, or cannot read the file. */
  async read(): Promise<string[]> {
    const text = await readFile(this.#path, 'utf8').catch(() => '');
    return text.split('\n').filter((line) => line !== '');
  }

  /** Does nothing if the file cannot be written: the next `dev` then refuses to replace the draft until the user allows it. */
  async write(hashes: readonly string[]): Promise<void> {
    try {
      await makeFolder(dirname(this.#path));
      await writeFile(this.#path, `${hashes.join('\n')}\n`, { mode: 0o600 });
    } catch {}
  }
}
