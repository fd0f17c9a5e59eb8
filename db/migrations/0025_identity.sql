-- Up Migration
-- Two issuers may give the same subject to two people, so an account belongs to an issuer and a subject. Accounts from
-- before are those of the built-in issuer. The name is unique over all issuers: people, audit and SSH hosts refer to it.
ALTER TABLE accounts
  ADD COLUMN issuer           text NOT NULL DEFAULT 'bulkhead',
  ADD COLUMN subject          text,
  ADD COLUMN suspended_reason text,              -- an operator suspended the account; null: it is not suspended
  ADD COLUMN tokens_after     timestamptz;       -- set: tokens without a row in tokens must have been issued later
UPDATE accounts SET subject = name;
ALTER TABLE accounts ALTER COLUMN subject SET NOT NULL; -- old code: accounts_subject fills it
CREATE UNIQUE INDEX accounts_sign_in ON accounts (issuer, subject);

-- Processes of the release before insert id and name only, until they are replaced.
CREATE FUNCTION fill_account_subject() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.subject := NEW.name;
  RETURN NEW;
END $$;
CREATE TRIGGER accounts_subject BEFORE INSERT ON accounts
  FOR EACH ROW WHEN (NEW.subject IS NULL) EXECUTE FUNCTION fill_account_subject();

-- The tokens of the built-in issuer. A token whose row is gone is revoked. Tokens from before have no id and no row.
CREATE TABLE tokens (
  id           text PRIMARY KEY,                 -- the token's jti
  account_id   text NOT NULL REFERENCES accounts,
  name         text NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz,                      -- written every few minutes at most
  expires_at   timestamptz NOT NULL
);
CREATE INDEX tokens_account ON tokens (account_id, id);
CREATE INDEX tokens_expiry ON tokens (expires_at);
