-- Up Migration
-- Queries are normalized (NFKC), so words of the catalog must be, too: a name in full-width letters was never found. A plugin of
-- before gets its new words with its next version or name. Up to 18 characters are made of one, and a tsvector holds at most 1 MB.
CREATE OR REPLACE FUNCTION plain_words(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN translate(left(normalize(given, NFKC), 100000), '-_/\.:@&+*"''`´’()[]{}<>|,;!?#%=~^$', repeat(' ', 40));
