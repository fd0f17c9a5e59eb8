-- Up Migration
-- Lock both tables first. A migration that waits for a dump must hold no lock on an index.
LOCK TABLE session_messages, turn_outputs IN ACCESS EXCLUSIVE MODE;
-- The required plugins that judged a text (supervisor/calls/guards.ts). Null: not judged, or by an earlier release.
ALTER TABLE session_messages ADD COLUMN guards text;
ALTER TABLE turn_outputs ADD COLUMN guards text;
-- Whether a prompt has contained a message that waits for its turn, or its turn was opened.
ALTER TABLE session_messages ADD COLUMN is_read boolean NOT NULL DEFAULT false;
