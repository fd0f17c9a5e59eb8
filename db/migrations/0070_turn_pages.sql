-- Up Migration
-- The calls and outputs of a turn are read in pages. Existing calls are numbered in the order in which they began.
CLUSTER tool_calls USING tool_calls_age;
ALTER TABLE tool_calls ADD COLUMN position bigint GENERATED ALWAYS AS IDENTITY;
CREATE INDEX tool_calls_page ON tool_calls (session_id, turn_id, position);
CREATE INDEX turn_outputs_page ON turn_outputs (session_id, turn_id, position);

-- The arguments of a call count too. Until PostgreSQL 17, a generated column gets another expression only by being replaced.
DO $view$
DECLARE
  definition text := pg_get_viewdef('stored_rows'::regclass);
BEGIN
  DROP VIEW stored_rows; -- old code: it is created again below
  ALTER TABLE tool_calls
    DROP COLUMN stored_bytes, -- old code: it is added again in the same statement
    ADD COLUMN stored_bytes integer GENERATED ALWAYS AS
      (coalesce(octet_length(answer::text), 0) + coalesce(octet_length(arguments::text), 0) + 600) STORED;
  EXECUTE 'CREATE VIEW stored_rows AS ' || definition;
END
$view$;
INSERT INTO account_usage_changes (account_id, kind, period, bytes)
  SELECT account_id, 'transcripts', '-infinity', sum(octet_length(arguments::text)) FROM tool_calls
   WHERE arguments IS NOT NULL GROUP BY 1;
