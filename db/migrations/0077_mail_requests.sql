-- Up Migration
-- Lock both tables first. A migration that waits for a dump must hold no lock on an index.
LOCK TABLE session_changes, session_messages IN ACCESS EXCLUSIVE MODE;
-- The request that sent a mail: another one with the same id is refused, whichever agent it is for. Null: the message is no mail, or
-- is older than this column.
ALTER TABLE session_messages ADD COLUMN request_digest text;
CREATE INDEX session_messages_requests ON session_messages (account_id, id) WHERE request_digest IS NOT NULL;
-- The stream of sessions also tells that a runtime changed the tools of a session.
ALTER TABLE session_changes DROP CONSTRAINT session_changes_type_check;
ALTER TABLE session_changes ADD CONSTRAINT session_changes_type_check CHECK (type IN ('cleared', 'deleted', 'tools'));
