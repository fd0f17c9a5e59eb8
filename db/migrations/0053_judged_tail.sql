-- Up Migration
-- The end of the text that was judged piece by piece: what plugins see before the next piece.
ALTER TABLE turn_outputs ADD COLUMN tail text NOT NULL DEFAULT '';
