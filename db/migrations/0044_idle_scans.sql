-- Up Migration
-- What a supervisor looks for every few seconds is nearly always nothing. These keep what that costs independent of how
-- many installations there are.
CREATE INDEX installation_runtime_running ON installation_runtime (lease) WHERE state <> 'stopped';
CREATE INDEX installations_uninstalling ON installations (id) WHERE status = 'uninstalling';
