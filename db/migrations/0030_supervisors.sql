-- Up Migration
-- Running supervisors. Each extends its lease every two seconds; one whose lease has expired owns nothing that another
-- wants.
CREATE TABLE supervisors (
  id         integer PRIMARY KEY,       -- random for each process
  -- Where other supervisors forward to it, and the key that signs what they forward. Both end with the process.
  address    text NOT NULL,
  peer_key   bytea NOT NULL,
  release    text NOT NULL,
  capacity   integer NOT NULL,          -- children it may run: its share of the accounts
  draining   boolean NOT NULL DEFAULT false, -- it takes nothing on
  process    text NOT NULL,             -- names the process on its machine, so that its neighbours see when it has ended
  started_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Accounts are spread over a fixed number of shards, each of which one supervisor owns. The epoch numbers the ownerships of
-- all shards: it changes with each change of owner, and writes for a plugin name it.
CREATE SEQUENCE shard_epochs AS integer;
CREATE TABLE shards (
  id    smallint PRIMARY KEY,
  owner integer,                        -- null: nobody's
  epoch integer NOT NULL DEFAULT nextval('shard_epochs')
) WITH (fillfactor = 50);
INSERT INTO shards (id) SELECT generate_series(0, 255);

CREATE FUNCTION account_shard(account_id text) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT get_byte(sha256(convert_to(account_id, 'UTF8')), 0)::smallint
$$;

-- Called in a transaction that writes for a plugin: fails if its supervisor no longer owns the shard, and makes the next
-- owner wait for the end of the transaction. Each statement of the function sees what was committed before it, so the epoch
-- is the one under the lock. 1651272563 is the class of these locks.
CREATE FUNCTION hold_shard(held integer, held_epoch integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(1651272563, held);
  IF NOT EXISTS (SELECT 1 FROM shards s WHERE s.id = held AND s.epoch = held_epoch) THEN
    RAISE EXCEPTION 'another supervisor owns shard % now', held USING ERRCODE = 'BH409';
  END IF;
  RETURN true;
END
$$;

-- Gives a supervisor those of the wanted shards that are nobody's, or whose owner's lease has expired. It ends the
-- transactions that such an owner left open: a process that stands still would hold them for ever.
CREATE FUNCTION claim_shards(claimant integer, wanted integer[]) RETURNS TABLE (shard smallint, shard_epoch integer)
LANGUAGE plpgsql AS $$
DECLARE
  next record;
BEGIN
  FOR next IN
    SELECT s.id, s.owner FROM shards s
     WHERE s.id = ANY (wanted)
       AND NOT EXISTS (SELECT 1 FROM supervisors v WHERE v.id = s.owner AND v.expires_at > clock_timestamp())
     ORDER BY s.id
  LOOP
    IF NOT pg_try_advisory_xact_lock(1651272563, next.id) THEN
      IF next.owner IS NOT NULL THEN
        PERFORM pg_terminate_backend(l.pid) FROM pg_locks l
          WHERE l.locktype = 'advisory' AND l.classid = 1651272563 AND l.objid = next.id AND l.objsubid = 2
            AND l.mode = 'ShareLock' AND l.granted
            AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
      END IF;
      PERFORM pg_advisory_xact_lock(1651272563, next.id);
    END IF;
  END LOOP;
  RETURN QUERY
    UPDATE shards s SET owner = claimant, epoch = nextval('shard_epochs')
     WHERE s.id = ANY (wanted)
       AND NOT EXISTS (SELECT 1 FROM supervisors v WHERE v.id = s.owner AND v.expires_at > clock_timestamp())
       AND EXISTS (SELECT 1 FROM supervisors v WHERE v.id = claimant AND v.expires_at > clock_timestamp())
       -- Supervisors of the release before own what they claimed by an advisory lock of this class.
       AND NOT EXISTS (SELECT 1 FROM pg_locks l
                        WHERE l.locktype = 'advisory' AND l.classid = 1651862635 AND l.objsubid = 2 AND l.granted
                          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
    RETURNING s.id, s.epoch;
END
$$;
