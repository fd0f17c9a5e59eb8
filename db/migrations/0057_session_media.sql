-- Up Migration
-- The sessions that hold a media file: a runtime put it there, or a message of the session has it. Beside the installations
-- of media_holders.
CREATE TABLE session_media (
  session_id text NOT NULL REFERENCES sessions ON DELETE CASCADE,
  media_id   text NOT NULL REFERENCES media ON DELETE CASCADE,
  PRIMARY KEY (session_id, media_id)
);
CREATE INDEX session_media_file ON session_media (media_id);

-- A file goes with its last holder, however that goes: a session is deleted with an agent, a channel or an installation.
CREATE FUNCTION drop_unheld_media() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- A holder that is being added holds the row's lock; the next statement sees it.
  PERFORM 1 FROM media WHERE id IN (SELECT media_id FROM removed) ORDER BY id FOR UPDATE;
  DELETE FROM media m WHERE id IN (SELECT media_id FROM removed)
     AND NOT EXISTS (SELECT 1 FROM media_holders h WHERE h.media_id = m.id)
     AND NOT EXISTS (SELECT 1 FROM session_media s WHERE s.media_id = m.id);
  RETURN NULL;
END $$;
CREATE TRIGGER session_media_removed AFTER DELETE ON session_media REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION drop_unheld_media();
