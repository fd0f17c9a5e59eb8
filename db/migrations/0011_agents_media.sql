-- Up Migration
-- The account's agents, for plugins and the console. Sessions name agents by any id of their runtime, so there is no
-- foreign key.
CREATE TABLE agents (
  id           text PRIMARY KEY,
  account_id   text NOT NULL REFERENCES accounts,
  name         text NOT NULL,
  instructions text NOT NULL,
  model        text,
  -- The installation that created it, which alone may change it and whose removal deletes it; null: the account itself.
  made_by      text REFERENCES installations ON DELETE CASCADE,
  size_bytes   integer NOT NULL,                 -- of its record as JSON, so that a list fits into one response
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX agents_account ON agents (account_id, id);
CREATE INDEX agents_made_by ON agents (made_by);
-- For an agent's newest session.
CREATE INDEX sessions_agent ON sessions (account_id, agent_id, id DESC);

-- host.media: the bytes are blobs. The id depends on account and content, so it differs between accounts.
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
-- The installations that stored a file. It is deleted with the last one.
CREATE TABLE media_holders (
  media_id        text NOT NULL REFERENCES media ON DELETE CASCADE,
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  PRIMARY KEY (media_id, installation_id)
);
CREATE INDEX media_holders_installation ON media_holders (installation_id);
