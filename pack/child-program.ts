/** Locates the program that plugins run in: built from source in the repository, a bundled file in the package. */
import { readFile } from 'node:fs/promises';

/** The location in a built package. */
export const CHILD_FILE = 'sandbox-child.cjs';

export async function childProgram(): Promise<string> {
  const packed = await readFile(new URL(CHILD_FILE, import.meta.url), 'utf8').catch(() => null);
  if (packed !== null) return packed;
  const { buildChild } = await import('../sandbox-child/build-child.ts');
  return buildChild();
}
