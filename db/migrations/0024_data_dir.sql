-- Up Migration
-- The keys in DATA_DIR that belong to this database. A start with other keys could read neither its secrets nor its users'
-- tokens.
CREATE TABLE recorded_keys (
  -- As in the name of the key's file, or the token's `kid`.
  id text PRIMARY KEY,
  purpose text NOT NULL CHECK (purpose IN ('identity', 'secrets')),
  -- SHA-256 of the key, in hex.
  fingerprint text NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now()
);

-- The check of `/readyz` inserts a row that fills a page, and rolls back. So it fails when the disk is full.
CREATE TABLE write_checks (filler text NOT NULL)
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20);
-- Neither compressed nor moved out of the row.
ALTER TABLE write_checks ALTER COLUMN filler SET STORAGE PLAIN;
