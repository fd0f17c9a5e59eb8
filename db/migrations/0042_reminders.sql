-- Up Migration
-- Reminders of sessions. The owner of the account delivers what is due.
CREATE TABLE reminders (
  session_id   text NOT NULL REFERENCES sessions ON DELETE CASCADE,
  id           text NOT NULL,
  position     bigint GENERATED ALWAYS AS IDENTITY,
  account_id   text NOT NULL,
  digest       text NOT NULL,                     -- of the request, to recognize another request with the same id
  text         text NOT NULL,
  recipient    text NOT NULL,
  zone         text NOT NULL,
  repeat       text,                              -- an RRULE without COUNT; null: once
  starts_at    timestamptz NOT NULL,              -- the first time
  next_at      timestamptz,                       -- null: it is over
  remaining    integer,                           -- times that are left, the next included; null: no end
  occurrence   integer NOT NULL DEFAULT 1,        -- number of the next time
  attempts     integer NOT NULL DEFAULT 0,        -- at the next time, while a required plugin did not run
  due_at       timestamptz,                       -- of the next attempt
  last_at      timestamptz,
  last_outcome text,
  created_at   timestamptz NOT NULL DEFAULT now(),
  stored_bytes integer GENERATED ALWAYS AS (octet_length(text) + 1000) STORED,
  PRIMARY KEY (session_id, id)
);
CREATE INDEX reminders_due ON reminders (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX reminders_of_account ON reminders (account_id) WHERE next_at IS NOT NULL;
CREATE INDEX reminders_page ON reminders (session_id, position);

CREATE TRIGGER usage_added AFTER INSERT ON reminders REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_removed AFTER DELETE ON reminders REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_checked AFTER INSERT ON reminders REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_over_limit($$'transcripts'$$);

CREATE OR REPLACE VIEW stored_rows AS
  SELECT account_id, CASE status WHEN 'draft' THEN 'drafts' ELSE 'versions' END AS kind,
         '-infinity'::timestamptz AS period, stored_bytes FROM versions
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM sessions
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM session_messages
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM turns
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM tool_calls
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM turn_outputs
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM turn_pieces
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM session_summaries
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM todos
  UNION ALL SELECT account_id, 'transcripts', '-infinity', stored_bytes FROM reminders
  UNION ALL SELECT account_id, 'deliveries', '-infinity', stored_bytes FROM deliveries
  UNION ALL SELECT account_id, 'deliveries', '-infinity', stored_bytes FROM events
  UNION ALL SELECT account_id, 'media', '-infinity', stored_bytes FROM media
  UNION ALL SELECT account_id, 'storage', '-infinity', stored_bytes FROM installation_storage
  UNION ALL SELECT account_id, 'logs', date_trunc('hour', at, 'UTC'), stored_bytes FROM plugin_logs
  UNION ALL SELECT account_id, 'audit', date_trunc('day', at, 'UTC'), stored_bytes FROM audit;
