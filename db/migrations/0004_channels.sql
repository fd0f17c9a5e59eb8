-- Up Migration

-- A connected vendor inbox of a channel plugin.
CREATE TABLE channels (
  id              text PRIMARY KEY,
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  account_id      text NOT NULL REFERENCES accounts,
  name            text NOT NULL,
  routing_id      text NOT NULL UNIQUE,          -- the current address
  connected_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX channels_installation ON channels (installation_id, id);

-- All addresses, current and retired: a retired one answers 410 forever, not 404. Therefore without foreign keys.
CREATE TABLE channel_addresses (
  routing_id      text PRIMARY KEY,
  channel_id      text NOT NULL,
  installation_id text NOT NULL,
  retired_at      timestamptz                    -- null: in use
);
CREATE INDEX channel_addresses_channel ON channel_addresses (channel_id) WHERE retired_at IS NULL;
CREATE INDEX channel_addresses_installation ON channel_addresses (installation_id) WHERE retired_at IS NULL;

-- Webhook requests, written before the vendor gets an answer.
CREATE TABLE deliveries (
  id              text PRIMARY KEY,
  channel_id      text NOT NULL,                 -- no foreign keys: accepted requests outlive their channel
  installation_id text NOT NULL,
  account_id      text NOT NULL,
  routing_id      text NOT NULL,
  position        bigint GENERATED ALWAYS AS IDENTITY,  -- the order within a channel
  received_at     timestamptz NOT NULL,
  method          text NOT NULL,
  query           text NOT NULL,                 -- as it came, without the question mark
  headers         json NOT NULL,                 -- names and values as received, in order: [[name, value], …]
  body            bytea NOT NULL,                -- exact bytes
  state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dead')),
  attempts        integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  claimed_by      integer,                       -- lease of the supervisor that is attempting it, an advisory lock
  last_error      text,
  finished_at     timestamptz
);
-- Bodies are compressed or random already, and are read once, so compressing them would only slow down the intake.
ALTER TABLE deliveries ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX deliveries_installation ON deliveries (installation_id, id);
CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE state <> 'pending';
CREATE INDEX deliveries_unfinished ON deliveries (installation_id) WHERE state = 'pending';
