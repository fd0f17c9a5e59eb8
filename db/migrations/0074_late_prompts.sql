-- Up Migration
-- A turn may get another system prompt after it was written. Statements that set none run no trigger.
CREATE FUNCTION count_late_prompt() RETURNS trigger LANGUAGE plpgsql AS $count$
BEGIN
  INSERT INTO account_usage_changes (account_id, kind, period, bytes)
    VALUES (NEW.account_id, 'transcripts', '-infinity', NEW.stored_bytes - OLD.stored_bytes);
  RETURN NULL;
END
$count$;
CREATE TRIGGER usage_updated AFTER UPDATE OF system_prompt ON turns FOR EACH ROW
  WHEN (OLD.stored_bytes <> NEW.stored_bytes) EXECUTE FUNCTION count_late_prompt();
