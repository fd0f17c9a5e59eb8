/** Which release of Bulkhead this is. */
import { readFileSync } from 'node:fs';

/** Semantic version, as `package.json` has it. */
export const RELEASE: string = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version;
