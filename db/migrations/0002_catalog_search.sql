-- Up Migration
-- Indexes for 100,000 plugins and 1,000,000 installations: every list and search reads an index.

DO $extension$
BEGIN
  -- Trusted since PostgreSQL 13: the owner of the database may create it.
  CREATE EXTENSION IF NOT EXISTS pg_trgm;
EXCEPTION
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'The role "%" may not create the extension pg_trgm in database "%", which the catalog''s search needs. Run CREATE EXTENSION pg_trgm there once as the database''s owner or a superuser, then start Bulkhead again.',
      current_user, current_database() USING ERRCODE = 'insufficient_privilege';
  WHEN undefined_file OR feature_not_supported THEN
    RAISE EXCEPTION 'This PostgreSQL server does not have the extension pg_trgm, which the catalog''s search needs. Install its contrib package, then start Bulkhead again.'
      USING ERRCODE = 'feature_not_supported';
END
$extension$;

-- Installation counts. A separate table, because concurrent installs hold the plugin's row FOR SHARE and would deadlock
-- if they also wrote to it.
CREATE TABLE install_counts (
  plugin_id text PRIMARY KEY REFERENCES plugins ON DELETE CASCADE,
  installs  integer NOT NULL
);

ALTER TABLE plugins
  -- Search texts, maintained by the trigger below. Title: slug and name as spelled. Summary: title and description, by
  -- English word stems. Readme: the summary and the latest readme.
  ADD COLUMN title        text NOT NULL DEFAULT '',
  ADD COLUMN title_words  tsvector NOT NULL DEFAULT '',
  ADD COLUMN summary_words tsvector NOT NULL DEFAULT '',
  ADD COLUMN readme_words tsvector NOT NULL DEFAULT '',
  -- Minus the binary order of magnitude of the installs: sorts popular plugins first, and changes so seldom that pages
  -- of a search keep their order while users install.
  ADD COLUMN install_rank smallint NOT NULL DEFAULT 0;

-- Punctuation separates words: otherwise, the parser takes "read/write" for a file path and "a.b" for a host.
CREATE FUNCTION plain_words(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN translate(given, '-_/\.:@&+*"''`´’()[]{}<>|,;!?#%=~^$', repeat(' ', 40));

CREATE FUNCTION fill_plugin_words() RETURNS trigger LANGUAGE plpgsql AS $fill$
DECLARE
  about text;
  manual text;
BEGIN
  -- A tsvector holds at most 1 MB; text beyond this many characters is not searched.
  SELECT v.manifest ->> 'description', left(v.readme, 100000) INTO about, manual
    FROM versions v WHERE v.id = NEW.latest_version_id;
  NEW.title := lower(plain_words(NEW.slug || ' ' || NEW.display_name));
  NEW.title_words := strip(to_tsvector('simple', NEW.title));
  NEW.summary_words := strip(to_tsvector('english', plain_words(concat_ws(' ', NEW.title, NEW.description, about))));
  NEW.readme_words := strip(to_tsvector('english', plain_words(concat_ws(' ', NEW.title, NEW.description, about, manual))));
  RETURN NEW;
END
$fill$;
CREATE TRIGGER plugin_words
  BEFORE INSERT OR UPDATE OF slug, display_name, description, latest_version_id ON plugins
  FOR EACH ROW EXECUTE FUNCTION fill_plugin_words();

CREATE FUNCTION count_install() RETURNS trigger LANGUAGE plpgsql AS $count$
DECLARE
  plugin text := CASE TG_OP WHEN 'DELETE' THEN OLD.plugin_id ELSE NEW.plugin_id END;
  change integer := CASE
    WHEN TG_OP = 'INSERT' THEN 1
    WHEN TG_OP = 'DELETE' OR NEW.status = 'uninstalling' THEN -1
    ELSE 1
  END;
  rank smallint;
BEGIN
  INSERT INTO install_counts AS c (plugin_id, installs) VALUES (plugin, change)
    ON CONFLICT (plugin_id) DO UPDATE SET installs = c.installs + change
    RETURNING -floor(log(2, greatest(c.installs, 0) + 1)) INTO rank;
  -- SKIP LOCKED: if others hold the plugin's row, the next install updates its rank.
  UPDATE plugins SET install_rank = rank
   WHERE id = (SELECT p.id FROM plugins p WHERE p.id = plugin AND p.install_rank <> rank FOR NO KEY UPDATE SKIP LOCKED);
  RETURN NULL;
END
$count$;
CREATE TRIGGER installation_counted AFTER INSERT ON installations
  FOR EACH ROW WHEN (NEW.status <> 'uninstalling') EXECUTE FUNCTION count_install();
CREATE TRIGGER installation_discounted AFTER DELETE ON installations
  FOR EACH ROW WHEN (OLD.status <> 'uninstalling') EXECUTE FUNCTION count_install();
CREATE TRIGGER installation_recounted AFTER UPDATE OF status ON installations
  FOR EACH ROW WHEN ((OLD.status = 'uninstalling') <> (NEW.status = 'uninstalling')) EXECUTE FUNCTION count_install();

-- Existing rows.
INSERT INTO install_counts (plugin_id, installs)
  SELECT plugin_id, count(*) FROM installations WHERE status <> 'uninstalling' GROUP BY plugin_id;
UPDATE plugins p SET slug = p.slug, install_rank = coalesce(
  (SELECT -floor(log(2, c.installs + 1)) FROM install_counts c WHERE c.plugin_id = p.id), 0);

-- Public plugins by slug, by rank, and by word. These indexes exclude private, delisted and blocked plugins.
DROP INDEX plugins_listed;
CREATE INDEX catalog_slug ON plugins (slug)
  WHERE visibility = 'listed' AND blocked_reason IS NULL AND deleted_at IS NULL;
CREATE INDEX catalog_rank ON plugins (install_rank, slug)
  WHERE visibility = 'listed' AND blocked_reason IS NULL AND deleted_at IS NULL;
CREATE INDEX catalog_name ON plugins (lower(display_name))
  WHERE visibility = 'listed' AND blocked_reason IS NULL AND deleted_at IS NULL;
-- Without fast update, because every search would read the pending list.
CREATE INDEX catalog_title_words ON plugins USING gin (title_words) WITH (fastupdate = off)
  WHERE visibility = 'listed' AND blocked_reason IS NULL AND deleted_at IS NULL;
CREATE INDEX catalog_summary_words ON plugins USING gin (summary_words) WITH (fastupdate = off)
  WHERE visibility = 'listed' AND blocked_reason IS NULL AND deleted_at IS NULL;
CREATE INDEX catalog_readme_words ON plugins USING gin (readme_words) WITH (fastupdate = off)
  WHERE visibility = 'listed' AND blocked_reason IS NULL AND deleted_at IS NULL;
CREATE INDEX catalog_title_trigrams ON plugins USING gin (title gin_trgm_ops) WITH (fastupdate = off)
  WHERE visibility = 'listed' AND blocked_reason IS NULL AND deleted_at IS NULL;
-- Private plugins of an account.
CREATE INDEX plugins_private ON plugins (owner_id, slug) WHERE visibility = 'private' AND deleted_at IS NULL;
-- Pages of an account's installations.
CREATE INDEX installations_live ON installations (account_id, id) WHERE status <> 'uninstalling';
