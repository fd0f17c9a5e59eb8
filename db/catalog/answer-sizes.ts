/** SQL of the bytes that parts of a version have in an answer, for lists that large rows end early. */
import { KIB } from '../../sdk/contract/limits.ts';
import { weighJsonSql } from '../postgres/rows.ts';

/** Times that an answer contains a capability: in the list of names, and with its sentence in `reach`. */
const CAPABILITY_TIMES = 3;
/** The rest of a capability in `reach`: its sentence, its risk and the names of the fields. Bytes. */
const REACH_BYTES = 150;
/** Size of a manifest that counts once in a page: as long as the longest frontmatter. Bytes. */
const SMALL_MANIFEST_BYTES = 16 * KIB;

/** @param column an array of capabilities, or NULL */
export const weighCapabilitiesSql = (column: string): string =>
  `coalesce(${CAPABILITY_TIMES} * octet_length(array_to_string(${column}, '')) + ${REACH_BYTES} * cardinality(${column}), 0)`;

/** @param column a manifest, or NULL */
export const weighManifestSql = (column: string): string =>
  weighJsonSql(`coalesce(octet_length(${column}::text), 0)`, SMALL_MANIFEST_BYTES);
