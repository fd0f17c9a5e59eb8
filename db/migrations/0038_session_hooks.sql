-- Up Migration
-- How often each hook ran for a session, so that a runtime that never fires one can be seen.
CREATE TABLE session_hooks (
  session_id text NOT NULL REFERENCES sessions ON DELETE CASCADE,
  hook       text NOT NULL,
  asked      bigint NOT NULL,
  cancelled  bigint NOT NULL,
  last_at    timestamptz NOT NULL,
  PRIMARY KEY (session_id, hook)
);
