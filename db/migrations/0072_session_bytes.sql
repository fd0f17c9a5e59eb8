-- Up Migration
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
  UPDATE sessions SET stored_bytes = session_bytes(agent_id, agent_name, key)
   WHERE session_bytes(agent_id, agent_name, key) > 500 RETURNING account_id, stored_bytes)
INSERT INTO account_usage_changes (account_id, kind, period, bytes)
  SELECT account_id, 'transcripts', '-infinity', sum(stored_bytes - 500) FROM larger GROUP BY 1;
