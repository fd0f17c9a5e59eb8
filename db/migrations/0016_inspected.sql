-- Up Migration
-- Whether an installation's owner has its inspector open: said where its state is shown.
ALTER TABLE installation_runtime ADD COLUMN inspected boolean NOT NULL DEFAULT false;
