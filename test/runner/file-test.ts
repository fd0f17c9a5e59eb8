/** What a file in a shared process gets from `import t from 'tap'`. Each file has a copy of this module. */
import { getCurrentTest } from './current-test.ts';

// biome-ignore lint/style/noDefaultExport: it stands in for a module that has one
export default getCurrentTest();
