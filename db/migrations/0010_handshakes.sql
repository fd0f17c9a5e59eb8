-- Up Migration
-- Handshake requests of the API to supervisors while a vendor waits. They live for seconds.
CREATE TABLE handshakes (
  id              text PRIMARY KEY,              -- of the delivery that is created if the plugin does not answer
  channel_id      text NOT NULL,
  installation_id text NOT NULL,
  routing_id      text NOT NULL,
  received_at     timestamptz NOT NULL,
  method          text NOT NULL,
  query           text NOT NULL,
  headers         json NOT NULL,
  body            bytea NOT NULL,
  answer          json,                          -- null until answered; {"reply": null}: the plugin has no answer
  claimed_by      integer,
  created_at      timestamptz NOT NULL DEFAULT now()
);
