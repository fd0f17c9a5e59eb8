/** Hashes the files of a package. The service and the command line compare drafts by this hash. */
import { createHash } from 'node:crypto';

/** The hash of a tree: SHA-256 over `path NUL hex(sha256(bytes)) LF` of all files, sorted by path bytes. */
export function hashFileTree(files: readonly { readonly path: string; readonly sha256: string }[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${file.path}\0${file.sha256}\n`);
  return hash.digest('hex');
}

/** Sorts files by the UTF-8 bytes of their paths; the hash of a tree depends on this order. */
export function sortByPathBytes<File extends { readonly path: string }>(files: readonly File[]): File[] {
  // Encoding in each comparison would encode each path more than ten times.
  const encoded = files.map((file) => ({ file, bytes: Buffer.from(file.path) }));
  return encoded.sort((a, b) => Buffer.compare(a.bytes, b.bytes)).map(({ file }) => file);
}
