-- Up Migration
-- Id of the key that signed the token of the session's sign-in. Null: there was no such token, or an older release wrote the row.
ALTER TABLE console_sessions ADD COLUMN key_id text;
