/** Lists a folder that may be gone, or that this process has no descriptor left to open. */
import { readdirSync } from 'node:fs';

/** @returns none if it cannot be read */
export function listFolder(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
