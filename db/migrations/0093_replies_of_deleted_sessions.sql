-- Up Migration
-- The delivery of a reply ends while its session is being deleted, too: without the lock, the notice would violate the foreign
-- key, and the plugin would be asked to send the reply once more. Only a deletion holds a lock that this one is skipped for.
CREATE OR REPLACE FUNCTION note_failed_reply() RETURNS trigger LANGUAGE plpgsql AS $note$
BEGIN
  INSERT INTO session_messages (session_id, account_id, id, role, text, data)
  SELECT s.id, NEW.account_id, NEW.id || ':failed', 'notice',
         'A reply could not be delivered to its channel. Its delivery can be repeated.',
         json_build_object('kind', 'delivery_failed', 'deliveryId', NEW.id, 'channelId', NEW.channel_id)
    FROM conversations k JOIN sessions s ON s.id = k.session_id
   WHERE k.channel_id = NEW.channel_id AND k.conversation_key = NEW.conversation_key
     FOR KEY SHARE OF s SKIP LOCKED
  ON CONFLICT DO NOTHING;
  IF FOUND THEN PERFORM pg_notify('bulkhead_messages', NEW.account_id); END IF;
  RETURN NULL;
EXCEPTION WHEN SQLSTATE 'BH413' THEN
  -- The transcript is full. The delivery ends all the same.
  RETURN NULL;
END
$note$;
