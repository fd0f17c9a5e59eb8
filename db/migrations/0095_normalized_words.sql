-- Up Migration
-- The service normalizes queries (NFKC), so the catalog must normalize its words: no search found a name in full-width letters.
-- An existing plugin gets its normalized words with its next version or name. NFKC makes up to 18 characters of one, and a
-- tsvector holds at most 1 MB: hence the limit of 100,000 characters.
CREATE OR REPLACE FUNCTION plain_words(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN translate(left(normalize(given, NFKC), 100000), '-_/\.:@&+*"''`´’()[]{}<>|,;!?#%=~^$', repeat(' ', 40));
