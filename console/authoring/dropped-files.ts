/** Reads the files of a drop event, including those in folders. */
import { isExcluded } from './package-files.ts';

/** One more than a package may have, so that the service refuses the package instead of receiving a part of it. */
const FILES_MAX = 10_001;
type Located = File & { path?: string };

/** @returns the files, with their path in a dropped folder as `path` */
export async function readDroppedFiles(transfer: DataTransfer): Promise<File[]> {
  // The browser clears the entries after the first await.
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const found: File[] = [];
  for (const entry of entries) await walk(entry, found);
  return found;
}

async function walk(entry: FileSystemEntry, found: File[]): Promise<void> {
  if (found.length >= FILES_MAX) return;
  if (entry.isFile) {
    const file = await new Promise<Located>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    Object.defineProperty(file, 'path', { value: entry.fullPath });
    found.push(file);
    return;
  }
  // A folder such as node_modules could have more files than are read.
  if (isExcluded(`${entry.fullPath}/`)) return;
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const one of some) await walk(one, found);
  }
}
