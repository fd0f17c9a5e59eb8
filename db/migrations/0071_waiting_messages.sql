-- Up Migration
-- Whether a message of a user may wait for an answer: the list of unanswered messages reads only these, and checks each of them.
-- Code before this migration does not write the column, so the default is true.
ALTER TABLE session_messages ADD COLUMN waits boolean;
ALTER TABLE session_messages ALTER COLUMN waits SET DEFAULT true;

-- Of the existing messages, the newest of each account, as many as the list promised before. One with "turnId" came with its turn.
UPDATE session_messages m SET waits = true
  FROM (SELECT DISTINCT account_id FROM sessions) a, LATERAL (
    SELECT session_id, position FROM session_messages u
     WHERE u.account_id = a.account_id AND u.role = 'user' ORDER BY u.position DESC LIMIT 10000) newest
 WHERE m.session_id = newest.session_id AND m.position = newest.position AND NOT EXISTS (
   SELECT 1 FROM turns t WHERE t.session_id = m.session_id AND t.id = m.id
      AND (t.state NOT IN ('judging', 'open') OR m.data::text LIKE '%"turnId":%'));

DROP INDEX session_messages_inbox;
CREATE INDEX session_messages_waiting ON session_messages (account_id, position) WHERE role = 'user' AND waits;

-- The message of a turn that is over waits no longer.
CREATE FUNCTION end_waiting() RETURNS trigger LANGUAGE plpgsql AS $end$
BEGIN
  -- An UPDATE without a row would have its bytes counted all the same.
  IF EXISTS (SELECT 1 FROM session_messages WHERE session_id = NEW.session_id AND id = NEW.id AND waits) THEN
    UPDATE session_messages SET waits = false WHERE session_id = NEW.session_id AND id = NEW.id;
  END IF;
  RETURN NULL;
END
$end$;
CREATE TRIGGER turn_over AFTER UPDATE OF state ON turns FOR EACH ROW
  WHEN (NEW.state NOT IN ('judging', 'open') AND OLD.state IN ('judging', 'open')) EXECUTE FUNCTION end_waiting();
