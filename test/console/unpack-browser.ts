/**
 * `node test/console/unpack-browser.ts`: unpacks the browser of the npm package into the temporary folder and prints its
 * path. A program of its own because the package knows no other place: `TMPDIR` says which folder that is.
 */
import chromium from '@sparticuz/chromium';

console.log(await chromium.executablePath());
