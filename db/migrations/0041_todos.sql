-- Up Migration
-- What the host does for the agents of a session: its built-in tools, and to-dos.
ALTER TABLE sessions ADD COLUMN host_tools text[] NOT NULL DEFAULT '{}';

-- The to-dos of an account. All its agents share them.
CREATE TABLE todos (
  account_id        text NOT NULL REFERENCES accounts ON DELETE CASCADE,
  id                text NOT NULL,
  position          bigint GENERATED ALWAYS AS IDENTITY,
  digest            text NOT NULL,                -- of the request, to recognize another request with the same id
  title             text NOT NULL,
  notes             text NOT NULL,
  due_at            timestamptz,
  assignee_agent_id text,
  done              boolean NOT NULL DEFAULT false,
  created_by        text NOT NULL,                -- id of the agent, or of the session's agent for a person
  created_at        timestamptz NOT NULL DEFAULT now(),
  updated_at        timestamptz NOT NULL DEFAULT now(),
  stored_bytes      integer GENERATED ALWAYS AS (octet_length(title) + octet_length(notes) + 800) STORED,
  PRIMARY KEY (account_id, id)
);
CREATE INDEX todos_page ON todos (account_id, position);

CREATE TRIGGER usage_added AFTER INSERT ON todos REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_updated AFTER UPDATE ON todos REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_removed AFTER DELETE ON todos REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_checked AFTER INSERT ON todos REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_over_limit($$'transcripts'$$);
CREATE TRIGGER usage_rechecked AFTER UPDATE ON todos REFERENCING NEW TABLE AS added
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
  UNION ALL SELECT account_id, 'deliveries', '-infinity', stored_bytes FROM deliveries
  UNION ALL SELECT account_id, 'deliveries', '-infinity', stored_bytes FROM events
  UNION ALL SELECT account_id, 'media', '-infinity', stored_bytes FROM media
  UNION ALL SELECT account_id, 'storage', '-infinity', stored_bytes FROM installation_storage
  UNION ALL SELECT account_id, 'logs', date_trunc('hour', at, 'UTC'), stored_bytes FROM plugin_logs
  UNION ALL SELECT account_id, 'audit', date_trunc('day', at, 'UTC'), stored_bytes FROM audit;
