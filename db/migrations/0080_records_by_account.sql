-- Up Migration
-- Lock all tables first, in the weakest mode that the next migrations need: it does not wait for a dump.
LOCK TABLE plugin_logs, audit, plugins IN SHARE ROW EXCLUSIVE MODE;
-- The oldest records of an account that is near its quota are deleted in batches. Later partitions get these indexes, too.
CREATE INDEX plugin_logs_account ON plugin_logs (account_id, id);
CREATE INDEX audit_account ON audit (account_id, id);
