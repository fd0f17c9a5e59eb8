-- Up Migration
-- For the metrics of waiting work: how long an entry waits does not count from its arrival if a user replays it, or resumes the plugin
-- for which it waited. Null: that did not happen.
ALTER TABLE deliveries ADD COLUMN replayed_at timestamptz;
ALTER TABLE events ADD COLUMN replayed_at timestamptz;
-- When the installation could run again, and deliveries or events that were held for it became due.
ALTER TABLE installations ADD COLUMN released_at timestamptz;
