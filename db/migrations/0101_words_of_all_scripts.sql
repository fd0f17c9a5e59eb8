-- Up Migration
-- In the locale C, PostgreSQL's parser takes every character outside ASCII for a letter, and it joins words without a space between
-- them, as in Chinese. So no search found the word in “Zulip”, or 天気 in 東京天気予報. `search.ts` splits queries by the same rules:
-- * Marks and symbols separate words.
-- * In a script without spaces, each two neighbouring characters are a word, and so is the last one of a run.
--
-- A tsvector holds at most 1 MB, and a pair of characters of 4 bytes takes 12 bytes of it: hence the limit of 80,000 characters. The
-- API fills the words of existing plugins when it starts.
CREATE OR REPLACE FUNCTION plain_words(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
  SELECT rtrim(regexp_replace(
    separated || ' ' || regexp_replace(separated, '[^' || unspaced || ']+(?:[' || unspaced || ']|$)|^[' || unspaced || ']', ' ', 'g'),
    '[' || unspaced || ']{1,2}', ' \& ', 'g'))
  FROM (
    SELECT regexp_replace(
        translate(left(normalize(given, NFKC), 80000), '-_/\.:@&+*"''`´’()[]{}<>|,;!?#%=~^$', repeat(' ', 40)),
        '[\u00A1-\u00BF\u00D7\u00F7\u055A-\u055F\u0589\u05BE\u05F3\u05F4\u060C\u061B\u061F\u066A-\u066D\u06D4\u0964\u0965\u0E3F\u0E4F\u0E5A\u0E5B\u0F0A-\u0F14\u104A-\u104F\u17D4-\u17D6\u17D8-\u17DA\u2000-\u206F\u20A0-\u20FF\u2190-\u2BFF\u2E00-\u2E7F\u3000-\u3004\u3008-\u3020\u3030\u303D-\u303F\u30A0\u30FB\uFE00-\uFE0F\U0001F000-\U0001FAFF]',
        ' ', 'g') COLLATE "C" AS separated,
      '\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3005-\u3007\u3040-\u30FF\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\U00020000-\U0003FFFF' AS unspaced
  ) AS text
);
