/**
 * Returns the beginning of a statement: the CTE `wanted (id)` lists the distinct ids in a column of the pending rows, and then a
 * NULL. It is a loose index scan: one index probe for each id, however many rows have it.
 *
 * @param column the first column of a partial index on the pending rows
 */
export const withPendingSql = (table: 'deliveries' | 'events', column: 'channel_id' | 'installation_id'): string =>
  `WITH RECURSIVE wanted (id) AS (
    SELECT min(${column}) FROM ${table} WHERE state = 'pending'
    UNION ALL
    SELECT (SELECT min(p.${column}) FROM ${table} p WHERE p.state = 'pending' AND p.${column} > w.id)
      FROM wanted w WHERE w.id IS NOT NULL)`;
