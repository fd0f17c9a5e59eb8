-- Up Migration
-- The bytes that each account keeps, by kind. Triggers write every change in the transaction that makes it, so no writer
-- can forget it and no crash can part the two.

-- Sums. A kind whose old rows are dropped by the partition has a row for each; the others have one, of '-infinity'.
CREATE TABLE account_usage (
  account_id text NOT NULL,
  kind       text NOT NULL,
  period     timestamptz NOT NULL DEFAULT '-infinity',
  bytes      bigint NOT NULL,
  PRIMARY KEY (account_id, kind, period)
);
CREATE INDEX account_usage_period ON account_usage (kind, period) WHERE period > '-infinity';

-- Changes that are not in the sums yet. Only inserted and, every few seconds, moved to the sums, so that the writers of
-- an account neither wait for each other nor deadlock.
CREATE TABLE account_usage_changes (
  account_id text NOT NULL,
  kind       text NOT NULL,
  period     timestamptz NOT NULL,
  bytes      bigint NOT NULL
);
CREATE INDEX account_usage_changes_account ON account_usage_changes (account_id, kind);

-- The quotas of an account, from the settings, written at the start of the API. Without a row: no quota.
CREATE TABLE usage_limits (
  kind  text PRIMARY KEY,
  bytes bigint NOT NULL
);

CREATE FUNCTION usage_bytes(of_account text, of_kind text) RETURNS bigint LANGUAGE sql STABLE
RETURN (SELECT coalesce(sum(bytes), 0)::bigint FROM (
  SELECT bytes FROM account_usage WHERE account_id = of_account AND kind = of_kind
  UNION ALL
  SELECT bytes FROM account_usage_changes WHERE account_id = of_account AND kind = of_kind
) counted);

-- Every counted table has account_id and stored_bytes. The constants stand for a row's columns of bounded size and its
-- index entries.
ALTER TABLE versions ADD COLUMN account_id text, ADD COLUMN stored_bytes bigint;
UPDATE versions v SET account_id = p.owner_id, stored_bytes = v.size_bytes FROM plugins p WHERE p.id = v.plugin_id;
ALTER TABLE sessions ADD COLUMN stored_bytes integer NOT NULL DEFAULT 500;
ALTER TABLE session_messages ADD COLUMN stored_bytes integer
  GENERATED ALWAYS AS (octet_length(text) + coalesce(octet_length(data::text), 0) + 300) STORED;
ALTER TABLE deliveries ADD COLUMN stored_bytes integer
  GENERATED ALWAYS AS (octet_length(body) + octet_length(headers::text) + octet_length(query) + 700) STORED;
ALTER TABLE events ADD COLUMN stored_bytes integer GENERATED ALWAYS AS (octet_length(data::text) + 700) STORED;
ALTER TABLE media ADD COLUMN stored_bytes bigint GENERATED ALWAYS AS (size_bytes + 500) STORED;
ALTER TABLE installation_storage ADD COLUMN account_id text,
  ADD COLUMN stored_bytes integer GENERATED ALWAYS AS (size_bytes) STORED;
UPDATE installation_storage s SET account_id = i.account_id FROM installations i WHERE i.id = s.installation_id;
ALTER TABLE plugin_logs ADD COLUMN account_id text, ADD COLUMN stored_bytes integer
  GENERATED ALWAYS AS (octet_length(message) + coalesce(octet_length(data::text), 0) + 400) STORED;
UPDATE plugin_logs l SET account_id = i.account_id FROM installations i WHERE i.id = l.installation_id;
ALTER TABLE audit ADD COLUMN account_id text, ADD COLUMN stored_bytes integer
  GENERATED ALWAYS AS (coalesce(octet_length(detail), 0) + 400) STORED;
UPDATE audit a SET account_id = i.account_id FROM installations i WHERE i.id = a.installation_id;

-- For dropping the oldest finished rows of an account that is near its quota.
CREATE INDEX deliveries_account ON deliveries (account_id, state, finished_at) WHERE state <> 'pending';
CREATE INDEX events_account ON events (account_id, state, finished_at) WHERE state <> 'pending';

CREATE FUNCTION fill_version_account() RETURNS trigger LANGUAGE plpgsql AS $fill$
BEGIN
  NEW.account_id := (SELECT owner_id FROM plugins WHERE id = NEW.plugin_id);
  NEW.stored_bytes := coalesce(NEW.stored_bytes, NEW.size_bytes);
  RETURN NEW;
END
$fill$;
CREATE TRIGGER versions_account BEFORE INSERT ON versions FOR EACH ROW EXECUTE FUNCTION fill_version_account();

CREATE FUNCTION fill_storage_account() RETURNS trigger LANGUAGE plpgsql AS $fill$
BEGIN
  NEW.account_id := (SELECT account_id FROM installations WHERE id = NEW.installation_id);
  RETURN NEW;
END
$fill$;
CREATE TRIGGER storage_account BEFORE INSERT ON installation_storage FOR EACH ROW EXECUTE FUNCTION fill_storage_account();

-- Arguments: the kind and the period of a row, as SQL.
CREATE FUNCTION count_usage() RETURNS trigger LANGUAGE plpgsql AS $count$
DECLARE
  statement text := 'INSERT INTO account_usage_changes (account_id, kind, period, bytes)
    SELECT account_id, %1$s, %2$s, %3$s sum(stored_bytes) FROM %4$s WHERE account_id IS NOT NULL GROUP BY 1, 2, 3';
BEGIN
  IF TG_OP <> 'DELETE' THEN EXECUTE format(statement, TG_ARGV[0], TG_ARGV[1], '', 'added'); END IF;
  IF TG_OP <> 'INSERT' THEN EXECUTE format(statement, TG_ARGV[0], TG_ARGV[1], '-', 'removed'); END IF;
  RETURN NULL;
END
$count$;

-- Runs after count_usage, in the order of the triggers' names. Argument: the kind of a row, as SQL.
CREATE FUNCTION refuse_over_limit() RETURNS trigger LANGUAGE plpgsql AS $refuse$
DECLARE
  over record;
BEGIN
  EXECUTE format('SELECT a.kind, usage_bytes(a.account_id, a.kind) AS used, l.bytes AS allowed
      FROM (SELECT DISTINCT account_id, %s AS kind FROM added) a JOIN usage_limits l ON l.kind = a.kind
     WHERE usage_bytes(a.account_id, a.kind) > l.bytes LIMIT 1', TG_ARGV[0]) INTO over;
  IF over.kind IS NOT NULL THEN
    RAISE EXCEPTION 'The quota of % is exceeded.', over.kind
      USING ERRCODE = 'BH413', DETAIL = json_build_object('kind', over.kind, 'usedBytes', over.used, 'limitBytes', over.allowed);
  END IF;
  RETURN NULL;
END
$refuse$;

DO $triggers$
DECLARE
  counted record;
BEGIN
  FOR counted IN SELECT * FROM (VALUES
    -- table, kind, period, operations besides DELETE, whether an INSERT over the limit fails
    ('versions', $$CASE status WHEN 'draft' THEN 'drafts' ELSE 'versions' END$$, $$'-infinity'::timestamptz$$, true, true),
    ('sessions', $$'transcripts'$$, $$'-infinity'::timestamptz$$, false, true),
    ('session_messages', $$'transcripts'$$, $$'-infinity'::timestamptz$$, false, true),
    -- Accepted webhook requests must be stored, so the API refuses them before.
    ('deliveries', $$'deliveries'$$, $$'-infinity'::timestamptz$$, false, false),
    ('events', $$'deliveries'$$, $$'-infinity'::timestamptz$$, false, false),
    -- The supervisor refuses these two with messages for plugins.
    ('media', $$'media'$$, $$'-infinity'::timestamptz$$, false, false),
    ('installation_storage', $$'storage'$$, $$'-infinity'::timestamptz$$, true, false),
    -- The oldest rows are dropped instead.
    ('plugin_logs', $$'logs'$$, $$date_trunc('hour', at, 'UTC')$$, false, false),
    ('audit', $$'audit'$$, $$date_trunc('day', at, 'UTC')$$, false, false)
  ) AS v(name, kind, period, updates, refuses)
  LOOP
    EXECUTE format('CREATE TRIGGER usage_added AFTER INSERT ON %I REFERENCING NEW TABLE AS added
      FOR EACH STATEMENT EXECUTE FUNCTION count_usage(%L, %L)', counted.name, counted.kind, counted.period);
    EXECUTE format('CREATE TRIGGER usage_removed AFTER DELETE ON %I REFERENCING OLD TABLE AS removed
      FOR EACH STATEMENT EXECUTE FUNCTION count_usage(%L, %L)', counted.name, counted.kind, counted.period);
    IF counted.updates THEN
      EXECUTE format('CREATE TRIGGER usage_updated AFTER UPDATE ON %I REFERENCING OLD TABLE AS removed NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION count_usage(%L, %L)', counted.name, counted.kind, counted.period);
    END IF;
    IF counted.refuses THEN
      EXECUTE format('CREATE TRIGGER usage_checked AFTER INSERT ON %I REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_over_limit(%L)', counted.name, counted.kind);
    END IF;
  END LOOP;
END
$triggers$;

-- What the triggers would have counted. Workspaces and blobs are files: they are not here.
CREATE VIEW stored_rows AS
  SELECT account_id, CASE status WHEN 'draft' THEN 'drafts' ELSE 'versions' END AS kind,
         '-infinity'::timestamptz AS period, stored_bytes FROM versions
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM sessions
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM session_messages
  UNION ALL SELECT account_id, 'deliveries', '-infinity', stored_bytes FROM deliveries
  UNION ALL SELECT account_id, 'deliveries', '-infinity', stored_bytes FROM events
  UNION ALL SELECT account_id, 'media', '-infinity', stored_bytes FROM media
  UNION ALL SELECT account_id, 'storage', '-infinity', stored_bytes FROM installation_storage
  UNION ALL SELECT account_id, 'logs', date_trunc('hour', at, 'UTC'), stored_bytes FROM plugin_logs
  UNION ALL SELECT account_id, 'audit', date_trunc('day', at, 'UTC'), stored_bytes FROM audit;

INSERT INTO account_usage (account_id, kind, period, bytes)
  SELECT account_id, kind, period, sum(stored_bytes) FROM stored_rows WHERE account_id IS NOT NULL GROUP BY 1, 2, 3;

-- For releasing the files of yanked versions that no installation uses.
CREATE INDEX versions_yanked ON versions (plugin_id) WHERE status = 'yanked' AND stored_bytes > 0;
