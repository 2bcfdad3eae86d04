#!/bin/sh
# Stands in for the entrypoint of the official image, as its description documents it: at the first start it
# makes the cluster in PGDATA with POSTGRES_PASSWORD, POSTGRES_INITDB_ARGS and the database POSTGRES_DB, by a
# server that listens on the socket alone; then the container becomes the server.
set -eu
: "${POSTGRES_PASSWORD:?}"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  chmod 0700 "$PGDATA"
  printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
  # Words of its own on purpose.
  # shellcheck disable=SC2086
  initdb --pgdata="$PGDATA" --username=postgres --pwfile=/tmp/password ${POSTGRES_INITDB_ARGS:-} >/dev/null
  rm -f /tmp/password
  pg_ctl --wait --silent --pgdata="$PGDATA" -o "-c listen_addresses=" start >/dev/null
  PGPASSWORD=$POSTGRES_PASSWORD createdb --username=postgres "${POSTGRES_DB:-postgres}"
  pg_ctl --wait --silent --pgdata="$PGDATA" --mode=fast stop >/dev/null
fi
exec "$@"
