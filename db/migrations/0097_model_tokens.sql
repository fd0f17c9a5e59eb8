-- Up Migration
-- Tokens of the operator's models by account and plugin, for the daily limit: `model_usage_days` goes with its installation, so a plugin
-- that was uninstalled and installed again began at zero. Without foreign keys, because the rows outlive a deleted plugin. Those
-- of past days are swept.
CREATE TABLE model_tokens (
  day        date NOT NULL, -- UTC
  account_id text NOT NULL,
  plugin_id  text NOT NULL,
  tokens     bigint NOT NULL,
  PRIMARY KEY (day, account_id, plugin_id)
);
