-- Columns of the message stream: it reads in the order of the writing transactions, so that a late commit is not
-- missed. The position alone does not suffice, because it is assigned before the commit.
ALTER TABLE session_messages ADD COLUMN account_id text;
UPDATE session_messages m SET account_id = s.account_id FROM sessions s WHERE s.id = m.session_id;
ALTER TABLE session_messages ALTER COLUMN account_id SET NOT NULL;
ALTER TABLE session_messages ADD COLUMN tx xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX session_messages_stream ON session_messages (account_id, tx, position);
