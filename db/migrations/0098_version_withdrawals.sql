-- Up Migration
-- Yanked versions, until the updates to them have ended and no user is asked about them. Each transaction ends the updates of a batch
-- of installations: one for all followers of a popular plugin ran into the time limit, and its author could not yank the version.
CREATE TABLE version_withdrawals (
  version_id text PRIMARY KEY REFERENCES versions ON DELETE CASCADE
);
