-- Up Migration
-- An update is recorded first; the version becomes current after its process has started and answered.
ALTER TABLE installations
  ADD COLUMN target_version_id   text REFERENCES versions, -- the update under way
  ADD COLUMN target_since        timestamptz,
  ADD COLUMN rollback_reason     text,                     -- set: the update under way is a rollback, and why
  ADD COLUMN previous_version_id text REFERENCES versions, -- what ran before the current version
  ADD COLUMN previous_grants     text[],
  ADD COLUMN moved_at            timestamptz,              -- when the current version became current
  ADD COLUMN failed_version_id   text REFERENCES versions ON DELETE SET NULL, -- the last update, if it failed
  ADD COLUMN failed_reason       text,
  ADD COLUMN failed_at           timestamptz,
  ADD COLUMN rolled_back         boolean NOT NULL DEFAULT false; -- the failed version had been current
CREATE INDEX installations_target_version ON installations (target_version_id) WHERE target_version_id IS NOT NULL;
CREATE INDEX installations_previous_version ON installations (previous_version_id) WHERE previous_version_id IS NOT NULL;
CREATE INDEX installations_failed_version ON installations (failed_version_id) WHERE failed_version_id IS NOT NULL;

-- A saved draft replaces the one before, whose row stays while an installation still runs it.
ALTER TABLE versions DROP CONSTRAINT versions_status_check;
ALTER TABLE versions ADD CONSTRAINT versions_status_check
  CHECK (status IN ('published', 'yanked', 'draft', 'replaced'));
ALTER TABLE versions DROP CONSTRAINT versions_check;
ALTER TABLE versions ADD CONSTRAINT versions_check CHECK ((status IN ('draft', 'replaced')) = (semver IS NULL));

-- How often a version was rolled back, for its author. Without accounts and without texts of the plugin.
CREATE TABLE version_rollbacks (
  version_id text NOT NULL REFERENCES versions ON DELETE CASCADE,
  cause      text NOT NULL CHECK (cause IN ('crashed', 'memory', 'killed', 'not_started')),
  count      integer NOT NULL,
  last_at    timestamptz NOT NULL,
  PRIMARY KEY (version_id, cause)
);
