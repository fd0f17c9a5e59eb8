-- Up Migration
-- What is held until its installation can run, which a supervisor looks for every few seconds. Much more may wait behind it.
CREATE INDEX events_held ON events (installation_id) WHERE state = 'pending' AND next_attempt_at = 'infinity';
CREATE INDEX deliveries_held ON deliveries (installation_id) WHERE state = 'pending' AND next_attempt_at = 'infinity';
