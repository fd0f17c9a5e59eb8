-- Up Migration
-- Finds the oldest pending event of an installation without reading its history.
CREATE INDEX events_next ON events (installation_id, id) WHERE state = 'pending';
