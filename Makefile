# Everything a person or a CI machine types.  Needs make and a Python 3.11, 3.12 or 3.13 alone.

VENV := .venv
STAMP := $(VENV)/.ready
# Two files of tests at a time, in the order of their names: half of the time of many goes by in waiting.
PYTEST_JOBS ?= -n 2 --dist loadfile --no-loadscope-reorder
export NESSIE_OPS_HOME ?= $(CURDIR)/.nessie_ops

.DEFAULT_GOAL := help
.PHONY: help setup demo ui test lint pins clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

setup: $(STAMP) ## create .venv with the pinned packages, check Java, fetch the Iceberg jar

$(STAMP): requirements.txt requirements-build.txt pyproject.toml .ci/setup.sh
	@sh .ci/setup.sh $(VENV)
	@touch $@

demo: $(STAMP) ## run the pipeline on a branch, publish it, and watch a damaged month be refused
	@$(VENV)/bin/nessie-ops demo

ui: $(STAMP) ## open Dagster's web interface and its daemon on this project
	@$(VENV)/bin/nessie-ops ui

test: $(STAMP) ## run every test (PYTEST_ARGS="-k name" for some of them, PYTEST_JOBS= one at a time)
	@sh .ci/browser.sh
	@sh .ci/databases.sh $(VENV)/bin/python
	@sh .ci/s3.sh
	@sh .ci/spark35.sh $(VENV)/bin/python
	@$(VENV)/bin/python -m pytest $(PYTEST_JOBS) $(PYTEST_ARGS)

lint: $(STAMP) ## check style and types
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy

pins: ## resolve the pins anew; needs uv
	@command -v uv >/dev/null || { echo "make pins: uv is not on PATH" >&2; exit 1; }
	uv pip compile --group build $(PIN_OPTIONS) -o requirements-build.txt
	uv pip compile pyproject.toml --group dev $(PIN_OPTIONS) -c requirements-build.txt -o requirements.txt

# Hashes and no addresses: the same files serve every index and mirror.
PIN_OPTIONS := --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --strip-extras --no-annotate --no-header --quiet

clean: ## remove .venv and the caches of tools; the data in .nessie_ops stays
	rm -rf $(VENV) .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
