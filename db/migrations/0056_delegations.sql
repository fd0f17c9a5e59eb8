-- Up Migration
-- Services that accounts allowed to act for them. A service shows who it is by a token of its OpenID Connect issuer.
CREATE TABLE delegations (
  id           text PRIMARY KEY,
  account_id   text NOT NULL REFERENCES accounts ON DELETE CASCADE,
  name         text NOT NULL,
  issuer       text NOT NULL,                    -- address, without a slash at the end
  subject      text NOT NULL,                    -- of the service's tokens
  scopes       text[] NOT NULL,                  -- the most that a token for it may have
  created_at   timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz,
  UNIQUE (account_id, issuer, subject)
);

-- Null scopes: the token may do what its account may.
ALTER TABLE tokens
  ADD COLUMN scopes text[],
  ADD COLUMN delegation_id text REFERENCES delegations ON DELETE CASCADE;
CREATE INDEX tokens_delegation ON tokens (delegation_id) WHERE delegation_id IS NOT NULL;

-- Tokens of services that were exchanged, so that none is exchanged twice for one account.
CREATE TABLE exchanged_tokens (
  account_id text NOT NULL REFERENCES accounts ON DELETE CASCADE,
  digest     text NOT NULL,                      -- SHA-256 of the token
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, digest)
);
CREATE INDEX exchanged_tokens_expiry ON exchanged_tokens (expires_at);
