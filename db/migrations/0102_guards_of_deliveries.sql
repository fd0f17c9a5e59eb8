-- Up Migration
-- The required installation that stopped the last attempt at a delivery: with its next change the delivery may be attempted again. Null:
-- none did.
ALTER TABLE deliveries ADD COLUMN guard_id text;
