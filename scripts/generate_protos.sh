#!/usr/bin/env bash
# Regenerates the gRPC stubs in services/herma/api (or in the folder given) from protos/.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-services}"
bin="${VENV_BIN:-.venv/bin}"
mkdir -p "$out"
find "$out/herma/api" \( -name '*_pb2*.py' -o -name '*_pb2*.pyi' \) -delete 2>/dev/null || true
PATH="$PWD/$bin:$PATH" "$bin/python" -m grpc_tools.protoc -I protos \
  --python_out="$out" --grpc_python_out="$out" --mypy_out="quiet:$out" --mypy_grpc_out="quiet:$out" \
  $(cd protos && find herma -name '*.proto' | sort)
for folder in $(find "$out/herma/api" -type d -not -name '__pycache__' | sort); do
  [ -e "$folder/__init__.py" ] || printf '"""Generated from protos/ by `make protos`."""\n' > "$folder/__init__.py"
done
