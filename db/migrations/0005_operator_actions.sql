-- Up Migration

-- Actions of operators, kept forever. No foreign keys: a row outlives its subject.
CREATE TABLE operator_actions (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      timestamptz NOT NULL DEFAULT now(),
  by      text NOT NULL,                         -- the operating system's user and machine
  action  text NOT NULL,
  subject text NOT NULL,                         -- the account's name or the plugin's slug
  reason  text
);

-- For the blob sweep, which searches the versions that use a blob.
CREATE INDEX versions_bundle ON versions (bundle_sha256);
CREATE INDEX versions_source_map ON versions (source_map_sha256) WHERE source_map_sha256 IS NOT NULL;
