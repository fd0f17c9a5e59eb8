/** Reads the files of a drop event, including those in folders. */
import { isToolFile, isToolFolder } from '../../sdk/contract/package-paths.ts';

/** One more than a package may have, so that the service refuses the package instead of receiving a part of it. */
const FILES_MAX = 10_001;
type Located = File & { path?: string };

/** @returns the files, with their path in a dropped folder as `path` */
export async function readDroppedFiles(transfer: DataTransfer): Promise<File[]> {
  // The browser clears the entries after the first await.
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const found: File[] = [];
  const folder = findPackageFolder(entries);
  if (folder) await walk(folder, folder.fullPath, found);
  else await walkAll(entries, '', found);
  return found;
}

/** Returns the only dropped folder, whatever its name, unless a file beside it may belong to the package. */
function findPackageFolder(entries: readonly FileSystemEntry[]): FileSystemEntry | undefined {
  const [folder, ...others] = entries.filter(({ isFile, name }) => !isFile || !isToolFile(name));
  return folder?.isFile || others.length > 0 ? undefined : folder;
}

/** @param top the full path of the package's folder */
async function walk(entry: FileSystemEntry, top: string, found: File[]): Promise<void> {
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
    await walkAll(some, top, found);
  }
}

/** Leaves out folders such as node_modules, which could have more files than are read. */
async function walkAll(entries: readonly FileSystemEntry[], top: string, found: File[]): Promise<void> {
  const isPart = ({ isFile, fullPath }: FileSystemEntry) => isFile || !isToolFolder(fullPath.slice(top.length + 1));
  for (const entry of entries) if (isPart(entry)) await walk(entry, top, found);
}
