-- Up Migration
-- Streams read a blob in pieces. A piece of a compressed value costs PostgreSQL the decompression of all bytes before it, so
-- later values are not compressed.
ALTER TABLE stored_blobs ALTER COLUMN content SET STORAGE EXTERNAL;
