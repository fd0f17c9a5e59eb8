/**
 * Returns the beginning of a statement: the CTE `wanted (id)` lists the distinct ids in a column of the pending rows, or of those of
 * a condition, and then a NULL. It is a loose index scan: one index probe for each id, however many rows have it.
 *
 * @param column the first column of a partial index on these rows
 */
export const withPendingSql = (
  table: 'deliveries' | 'events',
  column: 'channel_id' | 'installation_id',
  condition = `state = 'pending'`,
): string =>
  `WITH RECURSIVE wanted (id) AS (
    SELECT min(${column}) FROM ${table} WHERE ${condition}
    UNION ALL
    SELECT (SELECT min(p.${column}) FROM ${table} p WHERE ${condition} AND p.${column} > w.id)
      FROM wanted w WHERE w.id IS NOT NULL)`;
