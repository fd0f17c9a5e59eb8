-- Up Migration
-- Lock both tables first. A migration that waits for a dump must hold no lock on an index.
LOCK TABLE deliveries, reminders IN ACCESS EXCLUSIVE MODE;
-- A queue of a channel: those set aside are not read for the first one in order. It replaces an index that contained both.
CREATE INDEX deliveries_ordered ON deliveries (channel_id, direction, set_aside, position) WHERE state = 'pending';
DROP INDEX deliveries_lane;
-- The conversations of replies, those set aside and those that wait. It replaces an index of those set aside.
CREATE INDEX deliveries_of_conversation ON deliveries (channel_id, direction, set_aside, conversation_key, position)
  WHERE state = 'pending' AND conversation_key IS NOT NULL;
DROP INDEX deliveries_conversation;
-- With the position: many may be due at the same time.
CREATE INDEX deliveries_due_aside ON deliveries (channel_id, direction, next_attempt_at, position)
  WHERE state = 'pending' AND set_aside;
DROP INDEX deliveries_aside;
-- Reminders that are over, which a sweep deletes.
CREATE INDEX reminders_over ON reminders (last_at) WHERE next_at IS NULL;
