-- Up Migration
-- Tools that the runtime of a session performs itself, between the same hooks as all others.
ALTER TABLE sessions ADD COLUMN has_tools boolean NOT NULL DEFAULT false;
-- Whether the session takes only messages that hooks judged.
ALTER TABLE sessions ADD COLUMN strict boolean NOT NULL DEFAULT false;

CREATE TABLE session_tools (
  session_id   text PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
  account_id   text NOT NULL,
  tools        json NOT NULL,                     -- name, description and parameters of each
  stored_bytes integer GENERATED ALWAYS AS (octet_length(tools::text) + 200) STORED
);

CREATE TRIGGER usage_added AFTER INSERT ON session_tools REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_updated AFTER UPDATE ON session_tools REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_removed AFTER DELETE ON session_tools REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_checked AFTER INSERT ON session_tools REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_over_limit($$'transcripts'$$);
CREATE TRIGGER usage_rechecked AFTER UPDATE ON session_tools REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_over_limit($$'transcripts'$$);

DO $view$
BEGIN
  EXECUTE format('CREATE OR REPLACE VIEW stored_rows AS %s
    UNION ALL SELECT account_id, ''transcripts'', ''-infinity''::timestamptz, stored_bytes FROM session_tools',
    rtrim(pg_get_viewdef('stored_rows'::regclass), '; '));
END
$view$;

-- A call that the host judged and the runtime performs.
ALTER TABLE tool_calls
  ADD COLUMN arguments     json,                  -- as the plugins let them pass; null: the host performs it
  ADD COLUMN attempt       text,                  -- of the runtime that got them
  ADD COLUMN result_digest text;                  -- of the result that the runtime sent
