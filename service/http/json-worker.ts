/** The thread that parses large JSON bodies. */
import { yieldThread } from '../lifecycle/priority.ts';

export { parseJson } from './json-parser.ts';

yieldThread();
