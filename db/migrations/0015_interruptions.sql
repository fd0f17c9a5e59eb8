-- Up Migration
-- Attempts that ended with the supervisor, or with a plugin process killed from outside: no failures of the plugin.
ALTER TABLE deliveries ADD COLUMN interruptions smallint NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN interruptions smallint NOT NULL DEFAULT 0;
