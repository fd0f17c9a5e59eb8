-- Up Migration
-- The mail of an account, which is listed newest first. The words are those with which the product begins the data: ->> would refuse
-- a message whose data holds U+0000.
CREATE INDEX session_messages_mail ON session_messages (account_id, position)
  WHERE starts_with(data::text, '{"kind":"agent_message"');
