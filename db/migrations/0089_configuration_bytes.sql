-- Up Migration
-- The settings and secrets of installations count for the quota of storage. Lock both tables first. A migration that waits for a dump
-- must hold no lock on one of them.
LOCK TABLE installations, installation_secrets IN ACCESS EXCLUSIVE MODE;
-- Null: the values are from before this migration, and do not count until they are saved again. Filling it in would write all rows
-- under the lock, and every request that reads an installation would wait for that.
ALTER TABLE installations ADD COLUMN stored_bytes integer; -- of the settings
ALTER TABLE installation_secrets ADD COLUMN account_id text, ADD COLUMN stored_bytes integer;

CREATE FUNCTION fill_settings_bytes() RETURNS trigger LANGUAGE plpgsql AS $fill$
BEGIN
  NEW.stored_bytes := CASE WHEN NEW.settings = '{}' THEN 0 ELSE octet_length(NEW.settings::text) END;
  RETURN NEW;
END
$fill$;
CREATE TRIGGER settings_bytes BEFORE INSERT OR UPDATE OF settings ON installations
  FOR EACH ROW EXECUTE FUNCTION fill_settings_bytes();

CREATE FUNCTION fill_secret_bytes() RETURNS trigger LANGUAGE plpgsql AS $fill$
BEGIN
  NEW.account_id := (SELECT account_id FROM installations WHERE id = NEW.installation_id);
  NEW.stored_bytes := octet_length(NEW.sealed) + 300;
  RETURN NEW;
END
$fill$;
CREATE TRIGGER secret_bytes BEFORE INSERT OR UPDATE OF sealed ON installation_secrets
  FOR EACH ROW EXECUTE FUNCTION fill_secret_bytes();

-- Counts one row, and refuses a value that takes more room than the one before while the quota is exceeded. Sealing a value again
-- takes as much as before, so a rotation of the key is never refused.
CREATE FUNCTION count_configuration() RETURNS trigger LANGUAGE plpgsql AS $count$
DECLARE
  of_account text := coalesce(NEW.account_id, OLD.account_id);
  changed integer := coalesce(NEW.stored_bytes, 0) - coalesce(OLD.stored_bytes, 0);
  used bigint;
  allowed bigint;
BEGIN
  IF changed = 0 THEN RETURN NULL; END IF;
  INSERT INTO account_usage_changes (account_id, kind, period, bytes) VALUES (of_account, 'storage', '-infinity', changed);
  IF changed < 0 OR (TG_OP = 'UPDATE' AND OLD.stored_bytes IS NULL) THEN RETURN NULL; END IF;
  SELECT bytes INTO allowed FROM usage_limits WHERE kind = 'storage';
  used := usage_bytes(of_account, 'storage');
  IF used > allowed THEN
    RAISE EXCEPTION 'The quota of storage is exceeded.'
      USING ERRCODE = 'BH413', DETAIL = json_build_object('kind', 'storage', 'usedBytes', used, 'limitBytes', allowed);
  END IF;
  RETURN NULL;
END
$count$;
CREATE TRIGGER usage_changed AFTER INSERT OR DELETE OR UPDATE OF settings ON installations
  FOR EACH ROW EXECUTE FUNCTION count_configuration();
CREATE TRIGGER usage_changed AFTER INSERT OR DELETE OR UPDATE OF sealed ON installation_secrets
  FOR EACH ROW EXECUTE FUNCTION count_configuration();

DO $view$
BEGIN
  EXECUTE format('CREATE OR REPLACE VIEW stored_rows AS %s
    UNION ALL SELECT account_id, ''storage'', ''-infinity''::timestamptz, stored_bytes FROM installations WHERE stored_bytes > 0
    UNION ALL SELECT account_id, ''storage'', ''-infinity''::timestamptz, stored_bytes FROM installation_secrets
      WHERE stored_bytes > 0',
    rtrim(pg_get_viewdef('stored_rows'::regclass), '; '));
END
$view$;
