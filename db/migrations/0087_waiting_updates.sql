-- Up Migration
-- The `target_since` of an update that lacks configuration: it waits for its user. Another update has another time.
ALTER TABLE installations ADD COLUMN waiting_target_since timestamptz;
