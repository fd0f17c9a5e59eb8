-- Up Migration
-- Lock both tables first. A migration that waits for a dump must hold no lock on one of them.
LOCK TABLE turn_outputs, turn_pieces IN ACCESS EXCLUSIVE MODE;
-- How many characters the judgements of pieces have added to a text; negative: removed. With the characters that the agent sent, this
-- is the length of the whole text, which is limited before the pieces are joined.
ALTER TABLE turn_outputs ADD COLUMN judged_growth integer NOT NULL DEFAULT 0;

-- The judged texts of pieces, their judgements and the files of outputs count too. Triggers fill the columns: a generated column with
-- another expression would write all rows again. Rows from before this migration keep what was counted for them.
ALTER TABLE turn_outputs ALTER COLUMN stored_bytes DROP EXPRESSION;
ALTER TABLE turn_pieces ALTER COLUMN stored_bytes DROP EXPRESSION;

CREATE FUNCTION fill_output_bytes() RETURNS trigger LANGUAGE plpgsql AS $fill$
BEGIN
  NEW.stored_bytes := 1000 + coalesce(octet_length(NEW.attachments::text), 0);
  RETURN NEW;
END
$fill$;
CREATE TRIGGER output_bytes BEFORE INSERT OR UPDATE OF attachments ON turn_outputs
  FOR EACH ROW EXECUTE FUNCTION fill_output_bytes();

CREATE FUNCTION fill_piece_bytes() RETURNS trigger LANGUAGE plpgsql AS $fill$
BEGIN
  NEW.stored_bytes := octet_length(NEW.text) + coalesce(octet_length(NEW.judged_text), 0)
    + coalesce(octet_length(NEW.judgement::text), 0) + 300;
  RETURN NEW;
END
$fill$;
CREATE TRIGGER piece_bytes BEFORE INSERT OR UPDATE OF judged_text, judgement ON turn_pieces
  FOR EACH ROW EXECUTE FUNCTION fill_piece_bytes();

-- It counts the change of any row of a transcript. Most updates of these tables change no byte, and then the condition of the trigger is
-- all that they cost.
ALTER FUNCTION count_late_prompt() RENAME TO count_changed_transcript; -- old code: only triggers call it, and not by name
CREATE TRIGGER usage_updated AFTER UPDATE ON turn_outputs FOR EACH ROW
  WHEN (OLD.stored_bytes <> NEW.stored_bytes) EXECUTE FUNCTION count_changed_transcript();
CREATE TRIGGER usage_updated AFTER UPDATE ON turn_pieces FOR EACH ROW
  WHEN (OLD.stored_bytes <> NEW.stored_bytes) EXECUTE FUNCTION count_changed_transcript();
