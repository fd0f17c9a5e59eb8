-- Up Migration
-- For the foreign key: each deleted version is looked for among the plugins.
CREATE INDEX plugins_latest_version ON plugins (latest_version_id) WHERE latest_version_id IS NOT NULL;
