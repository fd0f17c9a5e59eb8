-- Up Migration
-- What accounts could write without end: the changes that the stream of their sessions tells, and which sessions hold which files.
-- Changes are kept for a day, so there are few to rewrite.
ALTER TABLE session_changes ADD COLUMN stored_bytes integer GENERATED ALWAYS AS (octet_length(agent_id) + 300) STORED;
-- Null: the row is from before this migration and does not count. Filling it in would keep requests waiting.
ALTER TABLE session_media ADD COLUMN account_id text, ADD COLUMN stored_bytes integer NOT NULL DEFAULT 300;

CREATE FUNCTION fill_session_media_account() RETURNS trigger LANGUAGE plpgsql AS $fill$
BEGIN
  NEW.account_id := (SELECT account_id FROM media WHERE id = NEW.media_id);
  RETURN NEW;
END
$fill$;
CREATE TRIGGER session_media_account BEFORE INSERT ON session_media FOR EACH ROW EXECUTE FUNCTION fill_session_media_account();

DO $triggers$
DECLARE
  counted text;
BEGIN
  FOREACH counted IN ARRAY ARRAY['session_changes', 'session_media']
  LOOP
    EXECUTE format('CREATE TRIGGER usage_added AFTER INSERT ON %I REFERENCING NEW TABLE AS added
      FOR EACH STATEMENT EXECUTE FUNCTION count_usage(%L, %L)', counted, $$'transcripts'$$, $$'-infinity'::timestamptz$$);
    EXECUTE format('CREATE TRIGGER usage_removed AFTER DELETE ON %I REFERENCING OLD TABLE AS removed
      FOR EACH STATEMENT EXECUTE FUNCTION count_usage(%L, %L)', counted, $$'transcripts'$$, $$'-infinity'::timestamptz$$);
    EXECUTE format('CREATE OR REPLACE VIEW stored_rows AS %s
      UNION ALL SELECT account_id, ''transcripts'', ''-infinity''::timestamptz, stored_bytes FROM %I',
      rtrim(pg_get_viewdef('stored_rows'::regclass), '; '), counted);
  END LOOP;
END
$triggers$;

INSERT INTO account_usage_changes (account_id, kind, period, bytes)
  SELECT account_id, 'transcripts', '-infinity', sum(stored_bytes) FROM session_changes GROUP BY 1;
