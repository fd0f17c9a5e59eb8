-- The owner's catalog holds private and delisted plugins. Code that asks for private ones alone can use this index, too.
CREATE INDEX plugins_unlisted ON plugins (owner_id, slug) WHERE visibility <> 'listed' AND deleted_at IS NULL;
DROP INDEX plugins_private;
