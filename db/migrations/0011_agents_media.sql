-- Up Migration
-- The account's agents as plugins and the console see them. Sessions name agents by any id their runtime likes: no foreign key.
CREATE TABLE agents (
  id           text PRIMARY KEY,
  account_id   text NOT NULL REFERENCES accounts,
  name         text NOT NULL,
  instructions text NOT NULL,
  model        text,
  -- The installation that made it, which alone may change it, and with which it goes; null: the account itself.
  made_by      text REFERENCES installations ON DELETE CASCADE,
  size_bytes   integer NOT NULL,                 -- of its record as JSON, so that a list always fits into one answer
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX agents_account ON agents (account_id, id);
CREATE INDEX agents_made_by ON agents (made_by);
-- An agent's newest session.
CREATE INDEX sessions_agent ON sessions (account_id, agent_id, id DESC);

-- host.media: bytes are blobs. The id is made of account and content, so that one account's id is no other's.
CREATE TABLE media (
  id         text PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  sha256     text NOT NULL,                      -- the blob's name
  media_type text NOT NULL,                      -- sniffed
  name       text,                               -- as first given
  size_bytes bigint NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX media_account ON media (account_id);
CREATE INDEX media_blob ON media (sha256);
-- Who put it. The last one that goes takes it along.
CREATE TABLE media_holders (
  media_id        text NOT NULL REFERENCES media ON DELETE CASCADE,
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  PRIMARY KEY (media_id, installation_id)
);
CREATE INDEX media_holders_installation ON media_holders (installation_id);
