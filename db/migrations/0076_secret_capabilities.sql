-- Up Migration
-- What the user allowed when giving the value, and since: capabilities about the secret. Null: the value is older than this
-- column, and the grants of its installation count.
ALTER TABLE installation_secrets ADD COLUMN capabilities text[];
