-- Up Migration
-- What is spelled wrongly is corrected word by word against the words of the catalog's titles, of which there are far fewer
-- than titles, and then searched like anything else.

-- Every word of the slug or name of a plugin that is or was listed. None is taken out: most stand in other titles too, and
-- one that leads nowhere any more costs a search nothing.
CREATE TABLE catalog_words (word text PRIMARY KEY);

CREATE FUNCTION keep_catalog_words() RETURNS trigger LANGUAGE plpgsql AS $keep$
BEGIN
  -- In order: two that list the same new words at once would else wait for each other.
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

-- What is there already.
INSERT INTO catalog_words (word)
  SELECT DISTINCT unnest(tsvector_to_array(title_words)) FROM plugins WHERE visibility = 'listed';

-- Without fast update: a pending list is read by every search.
CREATE INDEX catalog_words_trigrams ON catalog_words USING gin (word gin_trgm_ops) WITH (fastupdate = off);
DROP INDEX catalog_title_trigrams;
