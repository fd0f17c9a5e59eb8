/** The browser of the console's tests, unpacked once a run. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** The path of the unpacked browser, set by `npm test`. */
export const BROWSER_VARIABLE = 'BULKHEAD_TEST_BROWSER';
const SCRIPT = fileURLToPath(new URL('../console/unpack-browser.ts', import.meta.url));

/** Unpacks the browser into the folder. @returns the path of its program */
export async function unpackBrowser(folder: string): Promise<string> {
  const env = { ...process.env, TMPDIR: folder };
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT], { env });
  return stdout.trim();
}
