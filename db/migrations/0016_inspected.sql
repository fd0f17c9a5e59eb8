-- Up Migration
-- Whether the inspector of an installation is open, for its status.
ALTER TABLE installation_runtime ADD COLUMN inspected boolean NOT NULL DEFAULT false;
