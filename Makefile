.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
UV_VERSION := $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements.lock)
TEST_ARGS ?=

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

# The stamp is newer than both files exactly when the environment matches them.
# Bytecode is made here: Spark starts Pythons by the dozen, and where PYTHONDONTWRITEBYTECODE is set each would compile
# all that it imports, which takes three times as long as importing it.
.venv/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(f"Python 3.11 or newer is needed, {sys.executable} is {v}: make PYTHON=python3.11 …") if sys.version_info < (3, 11) else print(f"setting up .venv with Python {v}: about 1.5 GB on disk")'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip sync --compile-bytecode --require-hashes requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

.PHONY: setup
setup: .venv/.installed ## make .venv with the locked dependencies

.PHONY: run
run: setup ## run the main job: catchment demo, a pipeline on local Spark
	@$(BIN)/catchment demo

.PHONY: test
test: setup ## run the tests but the long ones (those of Kafka after make kafka)
	@$(BIN)/python -m pytest $(TEST_ARGS)

PART ?= all

.PHONY: test-long
test-long: setup ## run the long tests, or PART=trials, worlds, fuzz, crashes or clouds
	@$(BIN)/python -m pytest --long $(PART) $(TEST_ARGS)

# Outside the repository, so that clones share it; the tests look there. Maven says each file that it fetches.
KAFKA := $(or $(CATCHMENT_KAFKA),$(HOME)/.cache/catchment/kafka)
KAFKA_STAMP := $(KAFKA)/$(shell cksum < tests/spark/kafka/pom.xml | cut -d' ' -f1)

$(KAFKA_STAMP):
	@command -v mvn > /dev/null || { echo "Maven is needed to fetch Kafka: install a system package such as maven"; exit 1; }
	@echo "fetching Kafka's connector and broker to $(KAFKA): about 55 MB"
	@rm -rf "$(KAFKA)/connector" "$(KAFKA)/broker" && mkdir -p "$(KAFKA)"
	@for part in connector broker; do mvn --batch-mode --file tests/spark/kafka/pom.xml --activate-profiles $$part \
	  dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$(KAFKA)/$$part" \
	  | grep --line-buffered -E '^Downloaded|ERROR|BUILD' || exit 1; test -d "$(KAFKA)/$$part" || exit 1; done
	@touch $@

.PHONY: kafka
kafka: $(KAFKA_STAMP) ## fetch what the Kafka tests run on (needs Maven)

.PHONY: check
check: setup ## ruff and mypy strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

.PHONY: format
format: setup ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

SEEDS ?= 20000

.PHONY: simulate
simulate: setup ## play SEEDS=20000 worlds of monitors on a bad network
	@$(BIN)/catchment simulate --seeds $(SEEDS)

.PHONY: bench
bench: setup ## run every benchmark and compare with benchmarks/targets.toml
	@$(BIN)/catchment bench sketches --check
	@$(BIN)/catchment bench startup --check
	@$(BIN)/catchment bench windows --check
	@$(BIN)/catchment bench spark --check
	@$(BIN)/catchment bench monitors --check
	@$(BIN)/catchment bench balance --check
	@$(BIN)/catchment bench amplab --check

.PHONY: figures
figures: setup ## run the benchmark and rewrite the figures in README.md
	@$(BIN)/python benchmarks/readme.py

.PHONY: lock
lock: setup ## resolve requirements.lock anew from pyproject.toml
	@$(BIN)/uv pip compile pyproject.toml --group dev --generate-hashes --universal --python-version 3.11 --no-header --upgrade --quiet --output-file requirements.lock

.PHONY: clean
clean: ## remove .venv, caches and results
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis results
	@find src tests experiments benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
