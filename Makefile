# Every target sets up what it needs: `make demo` and `make test` work on a machine that has only Python 3.11 or newer.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test slow lint format clean

help:
	@echo "make demo    tune a small model and its drafters, decode, check, measure (about 7 minutes)"
	@echo "make test    import law, style, types and the default test suite (about 3 minutes)"
	@echo "make slow    the tests that need the real small model"
	@echo "make lint    import law, style and types alone"
	@echo "make format  rewrite the sources in the house style"
	@echo "make clean   remove the environment and every cache"

demo: $(READY)
	$(BIN)/draftune demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

slow: $(READY)
	$(BIN)/python -m pytest -m slow

lint: $(READY)
	$(BIN)/lint-imports
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/pyright

format: $(READY)
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# torch comes first and alone, so that pip takes the very build that the constraints name.
$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { \
	  for python in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      echo "creating $(VENV) with $$($$python --version)" && exec $$python -m venv $(VENV); \
	    fi; \
	  done; \
	  echo "setting up: no Python 3.11 or newer found; install one and run make again." >&2; exit 1; }
	@echo "installing the pinned packages into $(VENV): a few minutes, once"
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $(READY)
