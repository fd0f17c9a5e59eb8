-- Up Migration
-- API processes, and the webhook requests that wait on their disks. After the database was away, what any of them received
-- since then is delivered when all of it is stored and in the order of its arrival.
CREATE TABLE spools (
  id           text PRIMARY KEY,        -- random for each process
  seen_at      timestamptz NOT NULL,
  announced_at timestamptz,             -- null: nothing has waited on its disk since the last settlement
  oldest_at    timestamptz,             -- arrival of the first request that waited there
  drained      boolean NOT NULL DEFAULT false -- all of them are stored
) WITH (fillfactor = 50);
