-- Up Migration
-- Supervisors order the rows of an installation by this time: one that was written after the clock of the database went back (a
-- failover, a corrected clock) must not look older.
CREATE FUNCTION keep_updated_at() RETURNS trigger LANGUAGE plpgsql AS $keep$
BEGIN
  NEW.updated_at := OLD.updated_at + interval '1 millisecond';
  RETURN NEW;
END
$keep$;
CREATE TRIGGER updated_at_grows BEFORE UPDATE ON installations FOR EACH ROW
  WHEN (NEW.updated_at < OLD.updated_at) EXECUTE FUNCTION keep_updated_at();
