-- Up Migration
-- Agents' replies are deliveries in the other direction: the same rows, order, retries and dead letters.
ALTER TABLE deliveries ADD COLUMN direction text NOT NULL DEFAULT 'in' CHECK (direction IN ('in', 'out'));
-- The head of a channel queue: one direction of one channel.
CREATE INDEX deliveries_lane ON deliveries (channel_id, direction, position) WHERE state = 'pending';

-- The agent that answers in a channel; null: an agent with the channel's id and name.
ALTER TABLE channels ADD COLUMN agent_id text, ADD COLUMN agent_name text;

-- The session of each conversation in a channel. A deleted session is replaced by a new one.
CREATE TABLE conversations (
  channel_id       text NOT NULL REFERENCES channels ON DELETE CASCADE,
  conversation_key text NOT NULL,
  session_id       text NOT NULL UNIQUE REFERENCES sessions ON DELETE CASCADE,
  PRIMARY KEY (channel_id, conversation_key)
);

-- The lease of the supervisor that runs the child.
ALTER TABLE installation_runtime ADD COLUMN lease integer;
