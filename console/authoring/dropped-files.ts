/** The files of what was dropped, folders walked through. */

/** A drop of more files than a package may hold is no package. */
const FILES_MAX = 10_000;
type Located = File & { path?: string };

/** @returns the files; one out of a folder has its path there as `path` */
export async function readDroppedFiles(transfer: DataTransfer): Promise<File[]> {
  // The entries are gone after the first wait.
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
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const one of some) await walk(one, found);
  }
}
