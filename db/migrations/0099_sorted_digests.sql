-- Up Migration
-- Digest of the arguments of a call with sorted keys, so that a repeated call may have them in another order. `digest` keeps the order
-- in which they were sent, because the previous release compares it.
ALTER TABLE tool_calls ADD COLUMN sorted_digest text;
