/**
 * Beginning of a statement: `wanted (id)` lists the ids in a column of pending rows, and a NULL at its end. One index probe
 * for each: the cost does not depend on the number of rows.
 *
 * @param column with an index of the pending rows that begins with it
 */
export const withPendingSql = (table: 'deliveries' | 'events', column: 'channel_id' | 'installation_id'): string =>
  `WITH RECURSIVE wanted (id) AS (
    SELECT min(${column}) FROM ${table} WHERE state = 'pending'
    UNION ALL
    SELECT (SELECT min(p.${column}) FROM ${table} p WHERE p.state = 'pending' AND p.${column} > w.id)
      FROM wanted w WHERE w.id IS NOT NULL)`;
