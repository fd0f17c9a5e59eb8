-- Up Migration
-- Turns of agents, step by step: each step is written before it is answered, so that it can be repeated by its ids and any
-- runtime can go on where another stopped.

-- What the hooks made of a message. Null: no hook judged it.
ALTER TABLE session_messages ADD COLUMN judgement json;

CREATE TABLE turns (
  session_id    text NOT NULL REFERENCES sessions ON DELETE CASCADE,
  id            text NOT NULL,                    -- the runtime's; also the id of the message that the turn answers
  position      bigint GENERATED ALWAYS AS IDENTITY,
  account_id    text NOT NULL,
  state         text NOT NULL DEFAULT 'judging' CHECK (state IN ('judging', 'open', 'vetoed', 'ended', 'cleared')),
  sender        text NOT NULL,
  trigger       text NOT NULL,
  digest        text NOT NULL,                    -- of the request, to recognize another request with the same id
  system_prompt text NOT NULL,
  model         text NOT NULL,
  judgement     json,                             -- of the message; null while it is not judged
  runtime       text NOT NULL,                    -- the holder of the lease
  lease_seconds integer NOT NULL,
  lease_until   timestamptz NOT NULL,
  opened_at     timestamptz NOT NULL DEFAULT now(),
  ended_at      timestamptz,
  reply_id      text,                             -- the output that was sent to the channel
  stored_bytes  integer GENERATED ALWAYS AS (octet_length(system_prompt) + 2000) STORED,
  PRIMARY KEY (session_id, id)
);
CREATE INDEX turns_page ON turns (session_id, position);

-- Calls of tools, each made once. Kept for 24 hours.
CREATE TABLE tool_calls (
  session_id   text NOT NULL REFERENCES sessions ON DELETE CASCADE,
  turn_id      text NOT NULL,                     -- empty: outside a turn
  call_id      text NOT NULL,                     -- the runtime's
  digest       text NOT NULL,                     -- of the tool and the arguments
  account_id   text NOT NULL,
  name         text NOT NULL,
  runner       integer NOT NULL,                  -- lease id of the supervisor that calls the handler
  answer       json,                              -- null: the handler runs, or its supervisor died
  started_at   timestamptz NOT NULL DEFAULT now(),
  ended_at     timestamptz,
  stored_bytes integer GENERATED ALWAYS AS (coalesce(octet_length(answer::text), 0) + 600) STORED,
  PRIMARY KEY (session_id, turn_id, call_id, digest)
);
CREATE UNIQUE INDEX tool_calls_of_turn ON tool_calls (session_id, turn_id, call_id) WHERE turn_id <> '';
CREATE INDEX tool_calls_age ON tool_calls (started_at);

-- Texts of the agent in a turn.
CREATE TABLE turn_outputs (
  session_id   text NOT NULL,
  turn_id      text NOT NULL,
  id           text NOT NULL,                     -- the runtime's; also the id of the message in the transcript
  position     bigint GENERATED ALWAYS AS IDENTITY,
  account_id   text NOT NULL,
  state        text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'passed', 'vetoed')),
  digest       text NOT NULL DEFAULT '',          -- of the request that completed it
  pieces       integer NOT NULL,                  -- 0: the text came whole
  chars        integer NOT NULL DEFAULT 0,        -- of all pieces, in UTF-16 units as all lengths of texts
  shown        integer NOT NULL DEFAULT 0,        -- of the pieces that were answered before the end
  is_held      boolean NOT NULL,                  -- whether pieces wait for the judgement of the whole
  judgement    json,
  attachments  json,
  stored_bytes integer GENERATED ALWAYS AS (1000) STORED,
  PRIMARY KEY (session_id, turn_id, id),
  FOREIGN KEY (session_id, turn_id) REFERENCES turns ON DELETE CASCADE
);

-- Pieces of texts that are not complete.
CREATE TABLE turn_pieces (
  session_id   text NOT NULL,
  turn_id      text NOT NULL,
  output_id    text NOT NULL,
  piece        integer NOT NULL,
  account_id   text NOT NULL,
  text         text NOT NULL,
  is_shown     boolean NOT NULL,
  stored_bytes integer GENERATED ALWAYS AS (octet_length(text) + 300) STORED,
  PRIMARY KEY (session_id, turn_id, output_id, piece),
  FOREIGN KEY (session_id, turn_id, output_id) REFERENCES turn_outputs ON DELETE CASCADE
);

-- A summary replaces the messages up to a position in what a model reads. The transcript keeps them.
CREATE TABLE session_summaries (
  session_id      text NOT NULL REFERENCES sessions ON DELETE CASCADE,
  up_to           bigint NOT NULL,                -- position of the last message that it replaces
  account_id      text NOT NULL,
  text            text NOT NULL,
  installation_id text NOT NULL,                  -- the plugin that wrote it
  at              timestamptz NOT NULL DEFAULT now(),
  stored_bytes    integer GENERATED ALWAYS AS (octet_length(text) + 400) STORED,
  PRIMARY KEY (session_id, up_to)
);

DO $triggers$
DECLARE
  counted record;
BEGIN
  FOR counted IN SELECT * FROM (VALUES
    -- table, operations besides DELETE, whether an INSERT over the limit fails
    ('turns', false, true),
    -- An answer is written after the handler ran, so it must be stored.
    ('tool_calls', true, true),
    ('turn_outputs', false, true),
    ('turn_pieces', false, true),
    ('session_summaries', false, true)
  ) AS v(name, updates, refuses)
  LOOP
    EXECUTE format('CREATE TRIGGER usage_added AFTER INSERT ON %I REFERENCING NEW TABLE AS added
      FOR EACH STATEMENT EXECUTE FUNCTION count_usage(%L, %L)', counted.name, $$'transcripts'$$, $$'-infinity'::timestamptz$$);
    EXECUTE format('CREATE TRIGGER usage_removed AFTER DELETE ON %I REFERENCING OLD TABLE AS removed
      FOR EACH STATEMENT EXECUTE FUNCTION count_usage(%L, %L)', counted.name, $$'transcripts'$$, $$'-infinity'::timestamptz$$);
    IF counted.updates THEN
      EXECUTE format('CREATE TRIGGER usage_updated AFTER UPDATE ON %I REFERENCING OLD TABLE AS removed NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION count_usage(%L, %L)', counted.name, $$'transcripts'$$, $$'-infinity'::timestamptz$$);
    END IF;
    IF counted.refuses THEN
      EXECUTE format('CREATE TRIGGER usage_checked AFTER INSERT ON %I REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_over_limit(%L)', counted.name, $$'transcripts'$$);
    END IF;
  END LOOP;
END
$triggers$;

-- A message that was added unjudged may change when a turn has it judged.
CREATE TRIGGER usage_updated AFTER UPDATE ON session_messages REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);

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
  UNION ALL SELECT account_id, 'deliveries', '-infinity', stored_bytes FROM deliveries
  UNION ALL SELECT account_id, 'deliveries', '-infinity', stored_bytes FROM events
  UNION ALL SELECT account_id, 'media', '-infinity', stored_bytes FROM media
  UNION ALL SELECT account_id, 'storage', '-infinity', stored_bytes FROM installation_storage
  UNION ALL SELECT account_id, 'logs', date_trunc('hour', at, 'UTC'), stored_bytes FROM plugin_logs
  UNION ALL SELECT account_id, 'audit', date_trunc('day', at, 'UTC'), stored_bytes FROM audit;
