-- Up Migration
-- Keys that the operator revoked: a start does not take them over from a file that was left on another machine.
CREATE TABLE revoked_keys (
  id         text PRIMARY KEY,
  revoked_at timestamptz NOT NULL DEFAULT now()
);
