-- Up Migration
-- The journal no longer names the supervisor that calls a handler. Code before this migration still writes the column.
ALTER TABLE tool_calls ALTER COLUMN runner DROP NOT NULL;
