/** The thread that parses large JSON bodies. */
export { parseJson } from './json-parser.ts';
