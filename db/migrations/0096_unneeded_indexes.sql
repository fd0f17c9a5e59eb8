-- Up Migration
-- Each webhook request and each event wrote to them, and no statement is slower without them: `deliveries_held`, `deliveries_ordered`
-- and `events_next` serve what they served. PostgreSQL even chose `events_pending`, which has the events of all installations, for
-- statements about one.
DROP INDEX deliveries_unfinished;
DROP INDEX events_pending;
