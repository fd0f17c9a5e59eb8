-- Up Migration
-- Counts rows that no quota limited: the changes that the stream of sessions tells, which sessions hold which files, and the texts
-- of sessions. In this order, because a deletion writes its change before it deletes the session.
LOCK TABLE session_changes, session_media IN ACCESS EXCLUSIVE MODE;
LOCK TABLE sessions IN SHARE ROW EXCLUSIVE MODE;

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

-- A session counts its texts: the id and the name of its agent, and its key. The id and the key are in an index, too. 500 bytes
-- are enough for most sessions, so the migration writes few of the existing rows. A generated column would rewrite them all, and
-- readers would wait for it.
CREATE FUNCTION session_bytes(agent_id text, agent_name text, key text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN greatest(500, 300 + 2 * octet_length(agent_id) + octet_length(agent_name) + 2 * coalesce(octet_length(key), 0));

-- These columns never change.
CREATE FUNCTION fill_session_bytes() RETURNS trigger LANGUAGE plpgsql AS $fill$
BEGIN
  NEW.stored_bytes := session_bytes(NEW.agent_id, NEW.agent_name, NEW.key);
  RETURN NEW;
END
$fill$;
CREATE TRIGGER sessions_bytes BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION fill_session_bytes();

WITH larger AS (
  UPDATE sessions SET stored_bytes = session_bytes(agent_id, agent_name, key) WHERE id IN (
    -- A session that is just being deleted would wait for the locks above.
    SELECT id FROM sessions WHERE session_bytes(agent_id, agent_name, key) > 500 FOR UPDATE SKIP LOCKED) RETURNING account_id, stored_bytes)
INSERT INTO account_usage_changes (account_id, kind, period, bytes)
  SELECT account_id, 'transcripts', '-infinity', sum(stored_bytes - 500) FROM larger GROUP BY 1;
