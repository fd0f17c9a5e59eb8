-- Up Migration
-- Rows of transcripts are written in each step of a turn. Statements without EXECUTE are planned once per connection, which
-- takes half of the time from these triggers.
CREATE OR REPLACE FUNCTION count_usage() RETURNS trigger LANGUAGE plpgsql AS $count$
DECLARE
  statement text := 'INSERT INTO account_usage_changes (account_id, kind, period, bytes)
    SELECT account_id, %1$s, %2$s, %3$s sum(stored_bytes) FROM %4$s WHERE account_id IS NOT NULL GROUP BY 1, 2, 3';
BEGIN
  IF TG_ARGV[0] = '''transcripts''' THEN
    IF TG_OP <> 'DELETE' THEN
      INSERT INTO account_usage_changes (account_id, kind, period, bytes)
        SELECT account_id, 'transcripts', '-infinity', sum(stored_bytes) FROM added WHERE account_id IS NOT NULL GROUP BY 1;
    END IF;
    IF TG_OP <> 'INSERT' THEN
      INSERT INTO account_usage_changes (account_id, kind, period, bytes)
        SELECT account_id, 'transcripts', '-infinity', -sum(stored_bytes) FROM removed WHERE account_id IS NOT NULL GROUP BY 1;
    END IF;
    RETURN NULL;
  END IF;
  IF TG_OP <> 'DELETE' THEN EXECUTE format(statement, TG_ARGV[0], TG_ARGV[1], '', 'added'); END IF;
  IF TG_OP <> 'INSERT' THEN EXECUTE format(statement, TG_ARGV[0], TG_ARGV[1], '-', 'removed'); END IF;
  RETURN NULL;
END
$count$;

CREATE OR REPLACE FUNCTION refuse_over_limit() RETURNS trigger LANGUAGE plpgsql AS $refuse$
DECLARE
  over record;
BEGIN
  IF TG_ARGV[0] = '''transcripts''' THEN
    SELECT 'transcripts' AS kind, a.used, l.bytes AS allowed INTO over FROM usage_limits l,
      LATERAL (SELECT max(usage_bytes(account_id, 'transcripts')) AS used FROM (SELECT DISTINCT account_id FROM added) added) a
     WHERE l.kind = 'transcripts' AND a.used > l.bytes;
  ELSE
    EXECUTE format('SELECT a.kind, usage_bytes(a.account_id, a.kind) AS used, l.bytes AS allowed
        FROM (SELECT DISTINCT account_id, %s AS kind FROM added) a JOIN usage_limits l ON l.kind = a.kind
       WHERE usage_bytes(a.account_id, a.kind) > l.bytes LIMIT 1', TG_ARGV[0]) INTO over;
  END IF;
  IF over.kind IS NOT NULL THEN
    RAISE EXCEPTION 'The quota of % is exceeded.', over.kind
      USING ERRCODE = 'BH413', DETAIL = json_build_object('kind', over.kind, 'usedBytes', over.used, 'limitBytes', over.allowed);
  END IF;
  RETURN NULL;
END
$refuse$;
