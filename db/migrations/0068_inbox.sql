-- Up Migration
-- The messages of users of an account, newest first: those that wait for an answer are looked for among the newest of them.
-- Without a condition on the data: ->> would refuse a message whose data holds U+0000.
CREATE INDEX session_messages_inbox ON session_messages (account_id, position) WHERE role = 'user';
