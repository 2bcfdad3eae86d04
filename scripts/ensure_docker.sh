#!/usr/bin/env bash
# Makes a Docker engine answer, and Compose be there: uses what there is, else installs Debian's and starts
# it (root only).
set -euo pipefail

answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

composes() { docker compose version >/dev/null 2>&1 || docker-compose version >/dev/null 2>&1; }

install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if ! composes; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "there is no Docker Compose, and only root can install it" >&2
    exit 1
  fi
  install docker-compose
fi
if answers; then exit 0; fi
if [ "$(id -u)" -ne 0 ]; then
  echo "no Docker engine answers, and only root can start one" >&2
  exit 1
fi
if ! command -v dockerd >/dev/null; then
  install docker.io
fi
# Left behind by an engine that was killed; the number may belong to another process by now.
if [ -f /var/run/docker.pid ] && ! grep -q dockerd "/proc/$(cat /var/run/docker.pid)/cmdline" 2>/dev/null; then
  rm -f /var/run/docker.pid
fi
log="$(mktemp -d)/dockerd.log"
setsid nohup dockerd --storage-driver overlay2 --exec-opt native.cgroupdriver=cgroupfs \
  >"$log" 2>&1 </dev/null &
for _ in $(seq 120); do
  if answers; then
    echo "Docker engine $(docker version --format '{{.Server.Version}}') started, log in $log"
    exit 0
  fi
  sleep 0.5
done
echo "the Docker engine did not start; its log:" >&2
tail -n 40 "$log" >&2
exit 1
