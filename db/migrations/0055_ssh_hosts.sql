-- Up Migration
-- The SSH hosts that accounts added themselves. The operator's are in the file SSH_HOSTS_FILE.
CREATE TABLE ssh_hosts (
  account_id   text NOT NULL REFERENCES accounts ON DELETE CASCADE,
  id           text NOT NULL,                     -- chosen by the account
  position     bigint GENERATED ALWAYS AS IDENTITY,
  revision     text NOT NULL,                     -- another one after each change: connections of before are not used
  name         text NOT NULL,
  address      text NOT NULL,
  port         integer NOT NULL,
  user_name    text NOT NULL,
  host_keys    text[] NOT NULL,                   -- accepted fingerprints; empty: no connection is made
  login        text NOT NULL CHECK (login IN ('key', 'password')),
  key_id       text NOT NULL,
  sealed       bytea NOT NULL,                    -- JSON of the private key and its passphrase, or of the password
  tested_at    timestamptz,
  test_fault   text,                              -- of the last test; null: it succeeded
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now(),
  stored_bytes integer GENERATED ALWAYS AS (octet_length(sealed) + octet_length(name) + octet_length(address) + 1500) STORED,
  PRIMARY KEY (account_id, id)
);
CREATE INDEX ssh_hosts_page ON ssh_hosts (account_id, position);

CREATE TRIGGER usage_added AFTER INSERT ON ssh_hosts REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_updated AFTER UPDATE ON ssh_hosts REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_removed AFTER DELETE ON ssh_hosts REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'transcripts'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_checked AFTER INSERT ON ssh_hosts REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_over_limit($$'transcripts'$$);

-- What was done in the name of an account, by whom. Changes of its SSH hosts, and tokens that services got for it.
CREATE TABLE account_actions (
  id           text PRIMARY KEY,
  account_id   text NOT NULL REFERENCES accounts ON DELETE CASCADE,
  at           timestamptz NOT NULL DEFAULT now(),
  action       text NOT NULL,
  subject      text NOT NULL,
  detail       text,
  token_id     text,                              -- the record of the request's token; null: it had none
  actor        text,                              -- the service that acted for the account; null: the account itself
  stored_bytes integer GENERATED ALWAYS AS (octet_length(subject) + coalesce(octet_length(detail), 0) + 300) STORED
);
CREATE INDEX account_actions_page ON account_actions (account_id, id DESC);

CREATE TRIGGER usage_added AFTER INSERT ON account_actions REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'audit'$$, $$'-infinity'::timestamptz$$);
CREATE TRIGGER usage_removed AFTER DELETE ON account_actions REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION count_usage($$'audit'$$, $$'-infinity'::timestamptz$$);

-- Adds to the view as it is: other migrations add their tables too.
DO $$
BEGIN
  EXECUTE 'CREATE OR REPLACE VIEW stored_rows AS ' || rtrim(pg_get_viewdef('stored_rows'::regclass), '; ')
    || $view$ UNION ALL SELECT account_id, 'transcripts', '-infinity'::timestamptz, stored_bytes FROM ssh_hosts
       UNION ALL SELECT account_id, 'audit', '-infinity'::timestamptz, stored_bytes FROM account_actions $view$;
END $$;

-- Everything that a secret key sealed, with what binds each value to its row.
CREATE VIEW sealed_values AS
  SELECT installation_id AS owner, name, key_id, sealed FROM installation_secrets
  UNION ALL SELECT 'ssh:' || account_id, id, key_id, sealed FROM ssh_hosts;
