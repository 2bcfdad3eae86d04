#!/usr/bin/env bash
# Makes `ip` and `unshare` be there, with which tests make networks of their own: uses what there is, else
# installs Debian's (root only).
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"

if command -v ip >/dev/null && command -v unshare >/dev/null; then exit 0; fi
if [ "$(id -u)" -ne 0 ]; then
  echo "there is no \`ip\` or no \`unshare\` (iproute2, util-linux), and only root can install them" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends iproute2 util-linux >/dev/null
