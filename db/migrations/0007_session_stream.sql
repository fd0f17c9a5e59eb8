-- What a stream of an account's messages reads: in the order of the writing transactions, so that one which commits late
-- is not passed over. A position alone would be: it is taken before the commit.
ALTER TABLE session_messages ADD COLUMN account_id text;
UPDATE session_messages m SET account_id = s.account_id FROM sessions s WHERE s.id = m.session_id;
ALTER TABLE session_messages ALTER COLUMN account_id SET NOT NULL;
ALTER TABLE session_messages ADD COLUMN tx xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX session_messages_stream ON session_messages (account_id, tx, position);
