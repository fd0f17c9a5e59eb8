-- Up Migration
-- What the API asks of a supervisor while a vendor waits: the plugin's answer to a check of its address. Lives for seconds.
CREATE TABLE handshakes (
  id              text PRIMARY KEY,              -- of the delivery it becomes where there is no answer
  channel_id      text NOT NULL,
  installation_id text NOT NULL,
  routing_id      text NOT NULL,
  received_at     timestamptz NOT NULL,
  method          text NOT NULL,
  query           text NOT NULL,
  headers         json NOT NULL,
  body            bytea NOT NULL,
  answer          json,                          -- null until answered; {"reply": null} where the plugin has none
  claimed_by      integer,
  created_at      timestamptz NOT NULL DEFAULT now()
);
