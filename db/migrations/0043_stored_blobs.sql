-- Up Migration
-- Blobs outside of DATA_DIR: in this table, or as objects of a bucket that this table names. Each upload has a key of its
-- own, so that a sweep never removes the object of a later one.
CREATE TABLE stored_blobs (
  sha256     text PRIMARY KEY,
  size_bytes bigint NOT NULL,
  content    bytea,                          -- null: the blob is an object
  object_key text,
  state      text NOT NULL CHECK (state IN ('storing', 'stored', 'deleting')),
  touched_at timestamptz NOT NULL DEFAULT now(), -- a publish refers to it soon: the sweep spares it
  CHECK (content IS NOT NULL OR object_key IS NOT NULL)
);
CREATE INDEX stored_blobs_touched ON stored_blobs (touched_at);

-- Keys in the database, sealed under the cluster's key. Without one, keys are files in DATA_DIR.
ALTER TABLE recorded_keys ADD COLUMN sealed bytea;
ALTER TABLE cluster ADD COLUMN key_fingerprint text;
