# The commands that people and CI share. `make help` lists them.

# Where the environment lives; CI keeps one of its own.
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first of these that is new enough; `make setup PYTHON=/path/to/python` decides otherwise.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

# Further words for the program behind test, interop, bench and prove, and for the last one of demo:
# make test ARGS="-k segment -x", make demo ARGS=--keep
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check interop bench prove docs lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with the locked packages and the headrace command

# pip checks every archive against its hash; the build backend is in the lock too, so nothing else is fetched.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Headrace needs Python 3.11 or newer: make setup PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Headrace needs Python 3.11 or newer, not {sys.version}")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The last one is the main job: with ARGS=--keep its node, senders, load and stream go on until Ctrl-C.
demo: setup ## kill a node, a consumer, a load and a sender on the way of web-log events, and show that none is lost
	$(BIN)/headrace demo
	$(BIN)/headrace demo-lab --out .cache/demo-lab
	$(BIN)/headrace demo-lake $(ARGS)

# One file more at a time than there are CPUs, since tests wait, too; each by one process, in an order of chance. One at
# a time: ARGS=-n0
# A test that hangs where no signal reaches it ends its process, and says in which call.
test: setup ## run the tests that need nothing but Python
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses=4 --dist loadfile --no-loadscope-reorder \
		-o faulthandler_timeout=180 -o faulthandler_exit_on_timeout=true --max-worker-restart=1 $(ARGS)

check: setup ## lint, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

interop: setup ## other languages' clients, and every API compared with Apache Kafka (Java, Maven, Go, Node, kcat)
	$(BIN)/python -m pytest tests/interop tests/conformance $(ARGS)

bench: setup ## race against Apache Kafka and print one table (Java, Maven)
	$(BIN)/python -m bench.run $(ARGS)

prove: setup ## the long proofs, resumable, with dated results in docs/proofs
	$(BIN)/python -m tests.proofs.run $(ARGS)

docs: setup ## write the pages that are generated from tables
	$(BIN)/python -c "from headrace.node.config_page import configuration_page as page; print(page(), end='')" > docs/configuration.md
	$(BIN)/python -m tests.conformance.differences > docs/protocol.md

# Universal: one file for every Python from 3.11 and every platform. Without addresses: any index will do.
lock: setup ## choose newer packages and write requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra arrow --extra spark --extra lab --group dev --universal --python-version 3.11 --generate-hashes --upgrade \
		--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		--quiet --output-file requirements.lock

clean: ## remove what these commands made
	rm -rf $(VENV) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist \
		src/headrace.egg-info src/headrace/columnar/*.so
