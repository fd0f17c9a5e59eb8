-- Up Migration
-- A full quota refuses an update only if it takes more room: a to-do can be completed, and the tools of a session reduced. What must be
-- stored may exceed the quota, so an account can be over it. Lock both tables before anything else.
LOCK TABLE todos, session_tools IN SHARE ROW EXCLUSIVE MODE;
CREATE FUNCTION refuse_growth_over_limit() RETURNS trigger LANGUAGE plpgsql AS $refuse$
DECLARE
  over record;
BEGIN
  IF (SELECT sum(stored_bytes) FROM added) <= (SELECT sum(stored_bytes) FROM removed) THEN RETURN NULL; END IF;
  SELECT a.used, l.bytes AS allowed INTO over FROM usage_limits l,
    LATERAL (SELECT max(usage_bytes(account_id, 'transcripts')) AS used FROM (SELECT DISTINCT account_id FROM added) added) a
   WHERE l.kind = 'transcripts' AND a.used > l.bytes;
  IF FOUND THEN
    RAISE EXCEPTION 'The quota of transcripts is exceeded.'
      USING ERRCODE = 'BH413',
            DETAIL = json_build_object('kind', 'transcripts', 'usedBytes', over.used, 'limitBytes', over.allowed);
  END IF;
  RETURN NULL;
END
$refuse$;
CREATE OR REPLACE TRIGGER usage_rechecked AFTER UPDATE ON todos REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_growth_over_limit();
CREATE OR REPLACE TRIGGER usage_rechecked AFTER UPDATE ON session_tools REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_growth_over_limit();
