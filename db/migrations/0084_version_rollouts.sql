-- Up Migration
-- Plugins whose latest version has changed, until all installations that follow it were offered the new one. Each transaction offers it
-- to a page of them: one for all held the rows of a popular plugin's users for seconds.
CREATE TABLE version_rollouts (
  plugin_id text PRIMARY KEY REFERENCES plugins ON DELETE CASCADE,
  -- The last installation that was offered it.
  after_id  text NOT NULL DEFAULT ''
);
