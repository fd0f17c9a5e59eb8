-- Up Migration
-- Attempts interrupted by the end of the supervisor or a kill of the plugin's process: not failures of the plugin.
ALTER TABLE deliveries ADD COLUMN interruptions smallint NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN interruptions smallint NOT NULL DEFAULT 0;
