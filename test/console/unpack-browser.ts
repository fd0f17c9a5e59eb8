/**
 * `node test/console/unpack-browser.ts`: unpacks the browser of the npm package into the temporary folder and prints its
 * path. A program of its own because the package knows no other place: `TMPDIR` says which folder that is.
 */
import { fileURLToPath } from 'node:url';
import chromium, { inflate } from '@sparticuz/chromium';

// The package unpacks these libraries in the cloud only; a minimal Debian lacks them, too.
await inflate(fileURLToPath(import.meta.resolve('@sparticuz/chromium').replace(/build\/.*$/, 'bin/al2023.tar.br')));
console.log(await chromium.executablePath());
