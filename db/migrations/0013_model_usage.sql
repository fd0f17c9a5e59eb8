-- Up Migration
-- What each installation spent of the operator's models: sums, so that reading them costs the same after years.
CREATE TABLE model_usage (
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  model           text NOT NULL,                 -- provider/model, as host.models names it
  answers         bigint NOT NULL,               -- whole ones; the tokens of those that broke off are counted all the same
  input_tokens    bigint NOT NULL,
  output_tokens   bigint NOT NULL,
  cost            numeric NOT NULL,              -- at the prices of the time, in the operator's currency
  PRIMARY KEY (installation_id, model)
);
-- The same by day (UTC), which the cap of a day is held against. Old ones are swept.
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
