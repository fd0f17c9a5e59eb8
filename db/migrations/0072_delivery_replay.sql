-- Up Migration
-- Of the next migration, which runs in the same transaction: an attempt that waits for a dump must not hold the indexes' locks.
LOCK TABLE session_changes, session_media IN ACCESS EXCLUSIVE MODE;
-- The finished deliveries of a channel, which a replay takes oldest first.
CREATE INDEX deliveries_replay ON deliveries (channel_id, state, position) WHERE state <> 'pending';
-- The delivery of a conversation that was set aside, for which the others of the conversation wait. Few are set aside.
CREATE INDEX deliveries_conversation ON deliveries (channel_id, direction, conversation_key) WHERE state = 'pending' AND set_aside;
