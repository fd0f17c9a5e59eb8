-- Up Migration
-- Of migration 0094, which runs in the same transaction: an attempt that waits for a dump must not hold locks on these tables.
LOCK TABLE deliveries, events, installations IN ACCESS EXCLUSIVE MODE;
-- The media files of replies, which are deleted with their last holder: the session of a reply may be cleared while the reply waits.
CREATE TABLE delivery_media (
  delivery_id text NOT NULL REFERENCES deliveries ON DELETE CASCADE,
  media_id    text NOT NULL REFERENCES media ON DELETE CASCADE,
  PRIMARY KEY (delivery_id, media_id)
);
CREATE INDEX delivery_media_file ON delivery_media (media_id);

CREATE OR REPLACE FUNCTION drop_unheld_media() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- A holder that is being added holds the row's lock; the next statement sees it.
  PERFORM 1 FROM media WHERE id IN (SELECT media_id FROM removed) ORDER BY id FOR UPDATE;
  DELETE FROM media m WHERE id IN (SELECT media_id FROM removed)
     AND NOT EXISTS (SELECT 1 FROM media_holders h WHERE h.media_id = m.id)
     AND NOT EXISTS (SELECT 1 FROM session_media s WHERE s.media_id = m.id)
     AND NOT EXISTS (SELECT 1 FROM delivery_media d WHERE d.media_id = m.id);
  RETURN NULL;
END $$;
CREATE TRIGGER delivery_media_removed AFTER DELETE ON delivery_media REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION drop_unheld_media();

-- A reply that could not be delivered keeps its files for a replay, until its row is deleted.
CREATE FUNCTION release_media_of_reply() RETURNS trigger LANGUAGE plpgsql AS $release$
BEGIN
  DELETE FROM delivery_media WHERE delivery_id = NEW.id;
  RETURN NULL;
END
$release$;
CREATE TRIGGER media_of_reply AFTER UPDATE OF state ON deliveries FOR EACH ROW
  WHEN (NEW.direction = 'out' AND NEW.state = 'delivered') EXECUTE FUNCTION release_media_of_reply();
