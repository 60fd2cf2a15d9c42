# Two commands do everything on a fresh machine with Python and make:
#   make demo    the main job on data made on the spot
#   make test    all tests

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
  && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SIZE ?= 600MB
MEMORY ?= 256MB
FOLDER ?= demo-output

.PHONY: install demo test lint check clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 (with venv) was found." \
	  "Install one, or name it: make install PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Installing fewpass and what it needs into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  -c constraints.txt -e '.[dev,s3]'
	@touch $(STAMP)

demo: install
	@$(BIN)/fewpass demo $(FOLDER) --size $(SIZE) --memory $(MEMORY)

test: install
	$(BIN)/python -m pytest

lint: install
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

clean:
	rm -rf $(VENV) build dist *.egg-info demo-output .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
