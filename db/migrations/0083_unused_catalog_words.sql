-- Up Migration
-- A sweep deletes the words that no plugin of the catalog has. A plugin whose block ends is in the catalog again, so its words are
-- added again.
CREATE OR REPLACE TRIGGER catalog_words_updated AFTER UPDATE ON plugins
  FOR EACH ROW WHEN (
    NEW.visibility = 'listed' AND NEW.blocked_reason IS NULL AND NEW.deleted_at IS NULL
    AND (OLD.visibility <> 'listed' OR OLD.blocked_reason IS NOT NULL OR OLD.deleted_at IS NOT NULL OR OLD.title <> NEW.title))
  EXECUTE FUNCTION keep_catalog_words();
