-- Up Migration
-- A runtime's own name of a session: the same key of an account opens the same session.
ALTER TABLE sessions ADD COLUMN key text;
CREATE UNIQUE INDEX sessions_key ON sessions (account_id, key) WHERE key IS NOT NULL;
