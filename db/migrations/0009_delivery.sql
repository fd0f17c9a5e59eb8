-- Up Migration
-- Agents' replies go the way of webhook requests, in the other direction: the same rows, order, retries and dead letters.
ALTER TABLE deliveries ADD COLUMN direction text NOT NULL DEFAULT 'in' CHECK (direction IN ('in', 'out'));
-- The head of a lane: one direction of one channel.
CREATE INDEX deliveries_lane ON deliveries (channel_id, direction, position) WHERE state = 'pending';

-- Who answers in a channel; null: an agent of the channel's own id and name.
ALTER TABLE channels ADD COLUMN agent_id text, ADD COLUMN agent_name text;

-- The session of each conversation a channel's plugin tells apart. A deleted session is followed by a new one.
CREATE TABLE conversations (
  channel_id       text NOT NULL REFERENCES channels ON DELETE CASCADE,
  conversation_key text NOT NULL,
  session_id       text NOT NULL UNIQUE REFERENCES sessions ON DELETE CASCADE,
  PRIMARY KEY (channel_id, conversation_key)
);

-- Whose child it is: the supervisor that holds the advisory lock of this number.
ALTER TABLE installation_runtime ADD COLUMN lease integer;
