-- Up Migration
-- Calls per installation, handler and minute: summed in memory and added here in batches. A crash loses the last batch.
CREATE TABLE call_minutes (
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  minute          timestamptz NOT NULL,
  kind            text NOT NULL,                 -- hook, event, channel, tools, commands, providers
  name            text NOT NULL,
  calls           integer NOT NULL,
  errors          integer NOT NULL,              -- failed, or the plugin was unavailable
  timeouts        integer NOT NULL,
  cancels         integer NOT NULL,
  duration_ms     double precision NOT NULL,     -- sum
  buckets         integer[] NOT NULL,            -- calls by duration; the bounds are those of db/records/rollups.ts
  last_at         timestamptz NOT NULL,
  PRIMARY KEY (installation_id, minute, kind, name)
);
CREATE INDEX call_minutes_minute ON call_minutes (minute);

-- Resource use besides calls.
CREATE TABLE usage_minutes (
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  minute          timestamptz NOT NULL,
  host_calls      integer NOT NULL,
  denials         integer NOT NULL,
  log_lines       integer NOT NULL,
  dropped_lines   integer NOT NULL,
  restarts        integer NOT NULL,
  processor_ms    double precision NOT NULL,
  memory_max      bigint NOT NULL,               -- bytes
  PRIMARY KEY (installation_id, minute)
);
CREATE INDEX usage_minutes_minute ON usage_minutes (minute);

-- Links the trace of a webhook request to that of its deliveries: a W3C traceparent; null: not traced.
ALTER TABLE deliveries ADD COLUMN traceparent text;

-- Dead letters, counted at every scrape and listed for operators: rare, so the indexes are small.
CREATE INDEX deliveries_dead ON deliveries (id) WHERE state = 'dead';
CREATE INDEX events_dead ON events (id) WHERE state = 'dead';

