/** What file lists have in common, however they are used. */
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';

/** A package of text: above it, assets belong into a zip. Bytes of JSON. */
export const FILE_LIST_MAX_BYTES = 16 * MIB;

/** The answer to a file list whose bytes are no UTF-8. */
export const notUtf8Problem = (): Problem =>
  new Problem('text_files_only', 'The file list holds what is not UTF-8 text; binary assets need the zip upload.');
