/** The release of Bulkhead. */
import { readFileSync } from 'node:fs';

/** The semantic version in `package.json`. */
export const RELEASE: string = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version;
