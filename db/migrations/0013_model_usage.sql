-- Up Migration
-- Model usage per installation, as sums, so that reading costs the same after years.
CREATE TABLE model_usage (
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  model           text NOT NULL,                 -- provider/model, as host.models names it
  answers         bigint NOT NULL,               -- complete ones; the tokens of interrupted ones are counted, too
  input_tokens    bigint NOT NULL,
  output_tokens   bigint NOT NULL,
  cost            numeric NOT NULL,              -- at the prices of the time, in the operator's currency
  PRIMARY KEY (installation_id, model)
);
-- The same per day (UTC), for the daily limit. Old rows are swept.
CREATE TABLE model_usage_days (
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  day             date NOT NULL,
  answers         bigint NOT NULL,
  input_tokens    bigint NOT NULL,
  output_tokens   bigint NOT NULL,
  cost            numeric NOT NULL,
  PRIMARY KEY (installation_id, day)
);
CREATE INDEX model_usage_days_day ON model_usage_days (day);
