-- Up Migration
-- Plugins that judge messages piece by piece: each piece is shown when it is judged.
ALTER TABLE turn_outputs ADD COLUMN is_streamed boolean NOT NULL DEFAULT false;
ALTER TABLE turn_pieces ADD COLUMN judged_text text, ADD COLUMN judgement json;
