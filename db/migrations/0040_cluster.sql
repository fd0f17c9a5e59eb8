-- Up Migration
-- What all processes of this database have in common. Each compares it with its own settings before it starts.
CREATE TABLE cluster (
  only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  id           text NOT NULL,
  release      text NOT NULL,                  -- of the process that started last and knew all migrations
  blob_store   text NOT NULL,                  -- where blobs are: 'files', or as the setting says
  blobs_marked boolean NOT NULL DEFAULT false, -- the blob store holds the id
  created_at   timestamptz NOT NULL DEFAULT now()
);
