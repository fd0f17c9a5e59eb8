/** Fills a plugin with versions. To publish thousands would take minutes. */
import type { Pool } from 'pg';

/** Copies a published version: with 3 copies, the plugin also has 0.0.1, 0.0.2 and 0.0.3. */
export async function copyVersion(pool: Pool, versionId: string, copies: number): Promise<void> {
  await pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
       capabilities, added_capabilities, discovered, registrations)
     SELECT id || n, plugin_id, '0.0.' || n, 'published', source_sha256, bundle_sha256, size_bytes, manifest, readme,
       capabilities, added_capabilities, discovered, registrations
       FROM versions, generate_series(1, $2) AS n WHERE id = $1`,
    [versionId, copies],
  );
}

/** Gives each version of a plugin a tool whose description has this many bytes. */
export async function enlargeOffers(pool: Pool, pluginId: string, bytes: number): Promise<void> {
  await pool.query(
    `UPDATE versions SET discovered = jsonb_set(discovered, '{tools}', jsonb_build_array(
       jsonb_build_object('name', 'long', 'description', repeat('x', $2), 'parameters', '{}'::jsonb)))
      WHERE plugin_id = $1`,
    [pluginId, bytes],
  );
}
