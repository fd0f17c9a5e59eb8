/** Invariants of the tables, whatever the sequence of changes. Each is a query for rows that violate it. */
import type { Pool } from 'pg';

const BASE = `FROM installations i JOIN plugins p ON p.id = i.plugin_id LEFT JOIN versions c ON c.id = i.current_version_id
  LEFT JOIN versions n ON n.id = i.pending_version_id WHERE i.status <> 'uninstalling'`;
/** Grants of the packages in use that cover what they do not name. */
const COVERED = `(SELECT bool_and(w = ANY (i.granted_capabilities)
    OR (w = 'host.workspace:read' AND 'host.workspace' = ANY (i.granted_capabilities))
    OR (w = 'host.http:api.example.com' AND 'host.http:*.example.com' = ANY (i.granted_capabilities)))
  FROM unnest(n.capabilities) w)`;

/** By what each says, the rows that contradict it. */
const queries: Readonly<Record<string, string>> = {
  'the latest version is a published one of its plugin': `SELECT p.id FROM plugins p JOIN versions l
    ON l.id = p.latest_version_id WHERE l.status <> 'published' OR l.plugin_id <> p.id`,
  'a plugin with a published version has a latest one': `SELECT p.id FROM plugins p WHERE p.latest_version_id IS NULL
    AND EXISTS (SELECT 1 FROM versions v WHERE v.plugin_id = p.id AND v.status = 'published')`,
  'a plugin that ever published keeps a published version': `SELECT p.id FROM plugins p WHERE p.latest_version_id IS NULL
    AND EXISTS (SELECT 1 FROM versions v WHERE v.plugin_id = p.id AND v.status NOT IN ('draft', 'replaced'))`,
  'a stable version is never behind a pre-release': `SELECT p.id FROM plugins p JOIN versions l ON l.id = p.latest_version_id
    WHERE l.semver LIKE '%-%' AND EXISTS (SELECT 1 FROM versions v WHERE v.plugin_id = p.id AND v.status = 'published'
      AND v.semver NOT LIKE '%-%')`,
  'what is listed was published': `SELECT id FROM plugins WHERE visibility = 'listed' AND latest_version_id IS NULL`,
  'a deleted plugin has no live installation': `SELECT i.id ${BASE} AND p.deleted_at IS NOT NULL`,
  'every live installation runs a version of its plugin': `SELECT i.id ${BASE} AND c.plugin_id IS DISTINCT FROM p.id`,
  'grants are what the running version asks for': `SELECT i.id ${BASE}
    AND NOT (c.capabilities <@ i.granted_capabilities AND i.granted_capabilities <@ c.capabilities)`,
  'one that follows Latest runs it or is asked about it': `SELECT i.id ${BASE} AND i.version_policy = 'Latest'
    AND i.current_version_id <> p.latest_version_id AND i.pending_version_id IS DISTINCT FROM p.latest_version_id
    AND i.target_version_id IS DISTINCT FROM p.latest_version_id`,
  'one that follows Latest runs a yanked version only while it is asked': `SELECT i.id ${BASE}
    AND i.version_policy = 'Latest' AND c.status = 'yanked' AND i.pending_version_id IS NULL
    AND i.target_version_id IS NULL`,
  'only a pinned one moves to a yanked version': `SELECT i.id ${BASE} AND i.version_policy <> 'Pinned'
    AND EXISTS (SELECT 1 FROM versions g WHERE g.id = i.target_version_id AND g.status = 'yanked')`,
  'nobody is asked about what is yanked, a draft, of another plugin, or runs already': `SELECT i.id ${BASE}
    AND n.id IS NOT NULL AND (n.status <> 'published' OR n.plugin_id <> p.id OR n.id = i.current_version_id)`,
  'nobody is asked for what is granted': `SELECT i.id ${BASE} AND n.id IS NOT NULL AND ${COVERED}
    AND n.manifest ->> 'settings' = '{}' AND n.manifest ->> 'secrets' = '{}'`,
  'a draft is run by its owner only': `SELECT i.id ${BASE} AND c.status IN ('draft', 'replaced') AND p.owner_id <> i.account_id`,
  'who follows the draft runs it, and is asked nothing': `SELECT i.id ${BASE} AND i.version_policy = 'Draft'
    AND (c.status <> 'draft' AND i.target_version_id IS NULL OR i.pending_version_id IS NOT NULL)`,
  'a pin is on pinned ones only': `SELECT i.id ${BASE} AND (i.version_policy = 'Pinned') <> (i.pinned_version_id IS NOT NULL)`,
  'an account has one live installation of a plugin': `SELECT i.account_id ${BASE} GROUP BY i.account_id, i.plugin_id
    HAVING count(*) > 1`,
  'every installation was told of its beginning': `SELECT i.id FROM installations i WHERE NOT EXISTS (SELECT 1 FROM events e
    WHERE e.installation_id = i.id AND e.type = 'pluginInstalled')`,
  'the last move told of ends at the running version': `SELECT i.id ${BASE} AND c.status NOT IN ('draft', 'replaced') AND c.id <>
    (SELECT coalesce(e.data ->> 'toVersionId', e.version_id) FROM events e WHERE e.installation_id = i.id
       AND e.state <> 'skipped' AND (e.type = 'pluginUpdated' OR e.data ->> 'reason' = 'install') ORDER BY e.id DESC LIMIT 1)`,
  'each move told of begins where the one before ended': `SELECT * FROM (SELECT e.installation_id, e.data ->> 'fromVersionId' AS f,
      lag(coalesce(e.data ->> 'toVersionId', e.version_id)) OVER (PARTITION BY e.installation_id ORDER BY e.id) AS t
      FROM events e WHERE e.state <> 'skipped' AND (e.type = 'pluginUpdated' OR e.data ->> 'reason' = 'install')) moves WHERE f <> t`,
  'what is being removed has its last word and its job': `SELECT i.id FROM installations i WHERE i.status = 'uninstalling'
    AND (SELECT count(*) FROM events e WHERE e.installation_id = i.id AND e.type = 'pluginUninstalled') <> 1`,
  'what is gone left nothing': `SELECT s.installation_id FROM installation_secrets s
    WHERE NOT EXISTS (SELECT 1 FROM installations i WHERE i.id = s.installation_id)`,
  'every live installation runs a version whose files are there': `SELECT i.id ${BASE}
    AND NOT EXISTS (SELECT 1 FROM version_files f WHERE f.version_id = c.id)`,
  'the ledger of bytes equals what the rows take': `SELECT account_id, kind FROM (
      SELECT account_id, kind, stored_bytes AS bytes FROM stored_rows WHERE account_id IS NOT NULL
      UNION ALL SELECT account_id, kind, -bytes FROM account_usage
      UNION ALL SELECT account_id, kind, -bytes FROM account_usage_changes) balance
    WHERE kind NOT IN ('blobs', 'workspaces') GROUP BY account_id, kind HAVING sum(bytes) <> 0`,
  'nothing waits for an installation that is gone': `SELECT e.id FROM events e WHERE e.state = 'pending'
    AND NOT EXISTS (SELECT 1 FROM installations i WHERE i.id = e.installation_id)`,
};

/** Lists the violated invariants, with the ids of a few rows each. Empty: all hold. */
export async function brokenInvariants(pool: Pool): Promise<string[]> {
  const broken: string[] = [];
  for (const [says, query] of Object.entries(queries)) {
    const { rows } = await pool.query(query);
    if (rows.length > 0) broken.push(`${says}: ${JSON.stringify(rows.slice(0, 3))}`);
  }
  return broken;
}
