-- Up Migration
-- Sign-ins of the console. The browser holds the secret in a cookie; the database holds its hash only.
CREATE TABLE console_sessions (
  id         text PRIMARY KEY,                                  -- SHA-256 of the secret
  account_id text NOT NULL REFERENCES accounts ON DELETE CASCADE,
  token_id   text REFERENCES tokens ON DELETE CASCADE,          -- of the token that was exchanged; null: it had no record
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
CREATE INDEX console_sessions_account ON console_sessions (account_id);
CREATE INDEX console_sessions_token ON console_sessions (token_id) WHERE token_id IS NOT NULL;
CREATE INDEX console_sessions_expiry ON console_sessions (expires_at);

-- Codes of sign-in links. Each is exchanged once for a session.
CREATE TABLE sign_in_codes (
  id         text PRIMARY KEY,                                  -- SHA-256 of the code
  account_id text NOT NULL REFERENCES accounts ON DELETE CASCADE,
  expires_at timestamptz NOT NULL
);
CREATE INDEX sign_in_codes_expiry ON sign_in_codes (expires_at);
