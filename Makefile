# Herma. `make help` lists the targets.
PYTHON ?= python3.11
BIN := .venv/bin
PYTEST_ARGS ?=
UP_ARGS ?=
# Tests fork while gRPC runs in their process; its fork handlers would break the child.
export GRPC_ENABLE_FORK_SUPPORT := 0

.DEFAULT_GOAL := help
.PHONY: help setup up down test test-long bench check fmt docs protos protos-check images service-image lock

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: .venv/stamp ## Make .venv with the locked dependencies.

.venv/stamp: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Herma needs Python 3.11 or newer; set PYTHON" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

up: setup ## Start the platform, run one turn, stay up.
	@if docker version >/dev/null 2>&1; then $(BIN)/python scripts/build_images.py; fi
	@$(BIN)/herma up $(UP_ARGS)

down: setup ## Stop the platform.
	@$(BIN)/herma down

test: setup ## Run the tests (at most 15 minutes on two cores).
	@if docker version >/dev/null 2>&1; then $(BIN)/python scripts/build_images.py; fi
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long" $(PYTEST_ARGS)

test-long: setup ## Run the long tests.
	$(BIN)/python -m pytest -n 2 --dist loadfile -m long $(PYTEST_ARGS) || test $$? -eq 5

bench: setup ## Measure (BENCH=name for one line, QUICK=1 for fewer samples, BENCH_HERMES=1 for one more peer).
	@if docker version >/dev/null 2>&1; then $(BIN)/python scripts/build_images.py; fi
	$(BIN)/python -m tests.benchmarks $(if $(QUICK),--quick) $(if $(BENCH),$(BENCH),--write)

check: setup protos-check ## Formatting, lint, types, layers, protos.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check

fmt: setup ## Format the code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## Regenerate the generated documents.
	$(BIN)/python scripts/generate_docs.py

protos: setup ## Regenerate the gRPC stubs.
	scripts/generate_protos.sh

protos-check: setup ## Lint the protos; check that the stubs are theirs.
	cd protos && ../$(BIN)/buf lint
	@rm -rf .cache/protos && mkdir -p .cache/protos && scripts/generate_protos.sh .cache/protos
	@diff -r -x __pycache__ -x __init__.py .cache/protos/herma/api services/herma/api \
		&& echo "the stubs are up to date"

images: setup ## Build the sandbox images.
	$(BIN)/python scripts/build_images.py

service-image: setup ## Build the services' image, herma:dev, for compose.yaml.
	$(BIN)/python scripts/build_service_image.py

lock: setup ## Lock the dependencies again (needs uv).
	uv pip compile pyproject.toml --all-extras --group dev --generate-hashes --no-emit-index-url \
		--prerelease=if-necessary-or-explicit -p 3.11 -o requirements.lock
