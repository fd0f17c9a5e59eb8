-- Up Migration
-- The check of a quota reads the sums of an account, which takes longer than the rest of a step of a turn. These rows are
-- counted only: what makes them large is checked before, and the message that a turn or an output becomes is refused.
DROP TRIGGER usage_checked ON turns;
DROP TRIGGER usage_checked ON turn_outputs;
DROP TRIGGER usage_checked ON turn_pieces;
