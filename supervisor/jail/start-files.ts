/**
 * The files from which children start. Supervisors of two releases share their folder while one replaces the other, so the names
 * hold a hash of the content, or of a key where the content differs each time it is made.
 */
import { hash } from 'node:crypto';
import { chmodSync, existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listFolder } from './list-folder.ts';

/** Length of the hash in a file's name, characters: 64 bits. `HASHED_NAME` repeats it. */
const HASH_CHARS = 16;
/** Also matches a file that was not renamed, because its supervisor was killed. */
const HASHED_NAME = /^[a-z-]+-[0-9a-f]{16}\./;
/** Files that no supervisor has written for this time are removed: a new release takes over within minutes. Milliseconds. */
const KEEP_MS = 86_400_000;

type Content = string | Uint8Array;

export class StartFiles {
  readonly #directory: string;
  readonly #contents = new Map<string, Content>();

  /** @param directory exists */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Writes a file.
   *
   * @param key contents of the same key may replace each other. Default: the content
   * @returns its path
   */
  add(name: string, extension: string, content: Content, key = content): string {
    const path = join(this.#directory, `${name}-${hash('sha256', key).slice(0, HASH_CHARS)}.${extension}`);
    this.#contents.set(path, content);
    writeAtomically(path, content);
    return path;
  }

  /** Removes old files of other releases. */
  removeOld(): void {
    const before = Date.now() - KEEP_MS;
    for (const name of listFolder(this.#directory)) {
      const path = join(this.#directory, name);
      if (HASHED_NAME.test(name) && !this.#contents.has(path) && isOlder(path, before)) rmSync(path, { force: true });
    }
  }

  /** Writes the files again that a supervisor of another release has removed. */
  restore(): void {
    for (const [path, content] of this.#contents) if (!existsSync(path)) writeAtomically(path, content);
  }
}

function isOlder(path: string, time: number): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat !== undefined && stat.mtimeMs < time;
}

/** Another supervisor of the same release may be starting a child from the file. */
function writeAtomically(path: string, content: Content): void {
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, content);
  // Anybody may read it, whatever the umask: without bubblewrap, children of another user do. Its directory keeps others out.
  chmodSync(temporary, 0o444);
  renameSync(temporary, path);
}
