/** Limits and errors of file lists, shared by publish and draft. */
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';

/** Maximum size of a file list; assets need the zip upload. Bytes of JSON. */
export const FILE_LIST_MAX_BYTES = 16 * MIB;

/** The problem for a file list that is not UTF-8. */
export const notUtf8Problem = (): Problem =>
  new Problem('text_files_only', 'The file list is not UTF-8 text. Send binary assets with the zip upload.');
