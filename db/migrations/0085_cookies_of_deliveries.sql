-- Up Migration
-- Webhook addresses share the console's origin, so a browser that opened one sent the cookie of its session, which was stored with the
-- delivery. It is not stored any more.
UPDATE deliveries SET headers = coalesce(
    (SELECT json_agg(header ORDER BY n) FROM json_array_elements(headers) WITH ORDINALITY AS h (header, n)
      WHERE lower(header ->> 0) <> 'cookie'), '[]')
 WHERE headers::text ILIKE '%bulkhead-session%';
