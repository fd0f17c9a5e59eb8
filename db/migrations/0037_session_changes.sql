-- Up Migration
-- What the stream of an account's sessions tells besides messages. Kept for 24 hours, in one order with the messages.
CREATE TABLE session_changes (
  account_id text NOT NULL,
  tx         xid8 NOT NULL DEFAULT pg_current_xact_id(),
  position   bigint NOT NULL DEFAULT nextval('session_messages_position_seq'),
  session_id text NOT NULL,
  agent_id   text NOT NULL,
  type       text NOT NULL CHECK (type IN ('cleared', 'deleted')),
  at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account_id, tx, position)
);
CREATE INDEX session_changes_age ON session_changes (at);

-- The transcript says that a reply was sent when it is queued. If the vendor refuses it for good, a notice says so.
CREATE FUNCTION note_failed_reply() RETURNS trigger LANGUAGE plpgsql AS $note$
BEGIN
  INSERT INTO session_messages (session_id, account_id, id, role, text, data)
  SELECT k.session_id, NEW.account_id, NEW.id || ':failed', 'notice',
         'A reply could not be delivered to its channel. Its delivery can be repeated.',
         json_build_object('kind', 'delivery_failed', 'deliveryId', NEW.id, 'channelId', NEW.channel_id)
    FROM conversations k WHERE k.channel_id = NEW.channel_id AND k.conversation_key = NEW.conversation_key
  ON CONFLICT DO NOTHING;
  IF FOUND THEN PERFORM pg_notify('bulkhead_messages', NEW.account_id); END IF;
  RETURN NULL;
EXCEPTION WHEN SQLSTATE 'BH413' THEN
  -- The transcript is full. The delivery ends all the same.
  RETURN NULL;
END
$note$;
CREATE TRIGGER failed_reply AFTER UPDATE OF state ON deliveries FOR EACH ROW
  WHEN (NEW.direction = 'out' AND NEW.state = 'dead' AND OLD.state IS DISTINCT FROM 'dead')
  EXECUTE FUNCTION note_failed_reply();
