-- Up Migration
-- Misspelt words of a query are corrected with the words of the catalog's titles, of which there are far fewer than
-- titles.

-- Every word in the slug or name of a plugin that is or was listed. Words are never removed: most occur in other
-- titles, too, and an obsolete one does not slow down a search.
CREATE TABLE catalog_words (word text PRIMARY KEY);

CREATE FUNCTION keep_catalog_words() RETURNS trigger LANGUAGE plpgsql AS $keep$
BEGIN
  -- In order, so that two plugins that list the same new words at once do not deadlock.
  INSERT INTO catalog_words (word)
    SELECT word FROM unnest(tsvector_to_array(NEW.title_words)) word ORDER BY word
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$keep$;
CREATE TRIGGER catalog_words_inserted AFTER INSERT ON plugins
  FOR EACH ROW WHEN (NEW.visibility = 'listed') EXECUTE FUNCTION keep_catalog_words();
CREATE TRIGGER catalog_words_updated AFTER UPDATE ON plugins
  FOR EACH ROW WHEN (NEW.visibility = 'listed' AND (OLD.visibility <> 'listed' OR OLD.title <> NEW.title))
  EXECUTE FUNCTION keep_catalog_words();

-- Existing rows.
INSERT INTO catalog_words (word)
  SELECT DISTINCT unnest(tsvector_to_array(title_words)) FROM plugins WHERE visibility = 'listed';

-- Without fast update, because every search would read the pending list.
CREATE INDEX catalog_words_trigrams ON catalog_words USING gin (word gin_trgm_ops) WITH (fastupdate = off);
DROP INDEX catalog_title_trigrams;
