#!/bin/sh
# Patroni runs this on the first primary, with the address of its superuser as the argument.
set -eu
: "${BULKHEAD_DATABASE_PASSWORD:?set it in machine.env}"
"$POSTGRES_BIN_DIR/psql" --quiet --no-psqlrc --set ON_ERROR_STOP=1 --set password="$BULKHEAD_DATABASE_PASSWORD" "$1" <<'END'
CREATE ROLE bulkhead LOGIN CREATEDB PASSWORD :'password';
CREATE DATABASE bulkhead OWNER bulkhead;
END
