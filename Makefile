# Two commands do everything on a fresh machine with Python and make:
#   make demo    the main job on data made on the spot
#   make test    all tests, but those of larger public data sets; installs what developers need, too;
#                ORDER=text in a random order, for the same text the same
# What the first of them, make install, puts into .venv is what training from a terminal needs. More
# by name: make install EXTRAS=scikit-learn,s3
# For those who change something:
#   make check   format, lint, types, layers and all tests; PYTHON=python3.13 in an environment of its own
#   make docs    the documentation as a site, site/index.html
#   make dist    a wheel with compiled kernels, and a source archive
# With public data sets in the folder FEWPASS_DATA (tests/data/README.md says which):
#   make test-public-data  the tests that need them
# With an environment of their own, in which the libraries that fewpass is compared with are, too:
#   make bench        the benchmarks, and the figures of docs/performance.jsonl
#   make bench-quick  the same at toy sizes, to see that they run
# With the environment of the tests, an hour and a half on two cores:
#   make faults  all that can go wrong, done on purpose: docs/trust.jsonl
# With a Prefect server at PREFECT_API_URL:
#   make deploy  its work pool, deployments and automation
#   make notify  automations that write to a webhook when something went wrong

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
  && echo $$p && break; done)
# A Python that is named has an environment of its own: make check PYTHON=python3.13
VENV := .venv$(if $(filter command,$(firstword $(origin PYTHON))),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
EXTRAS ?=
STAMP := $(VENV)/.installed$(if $(EXTRAS),-$(EXTRAS))
DEV_STAMP := $(VENV)/.installed-dev
DOCS_STAMP := $(VENV)/.installed-docs
# What flows need; where developers' environment is there, that.
FLOWS := prefect
FLOWS_STAMP := $(VENV)/.installed-$(FLOWS)
PREFECT_STAMP := $(firstword $(wildcard $(DEV_STAMP)) $(FLOWS_STAMP))
PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.installed
BENCH_FOLDER ?= $${TMPDIR:-/tmp}/fewpass-bench
SIZE ?= 600MB
MEMORY ?= 256MB
FOLDER ?= demo-output
STORE ?= $(CURDIR)/store
# Test files side by side: three more than there are cores, as some wait for what they have started.
TEST_PROCESSES ?= $(shell echo $$(($$(nproc 2> /dev/null || echo 2) + 3)))
# Tests make thousands of small files durable: in memory, where there is any, that takes no time.
TEST_TMP ?= $(shell test -w /dev/shm && echo /dev/shm || echo "$${TMPDIR:-/tmp}")

# Share of all faults that `make faults` tries.
FAULTS_SIZE ?= 1.0

export FEWPASS_DATA
# A process that is lost stays so: another would run the test again that it was lost in, for ever.
PYTEST = TMPDIR=$(TEST_TMP) $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile \
  --no-loadscope-reorder --max-worker-restart 0

.PHONY: install install-dev demo test test-public-data lint check docs dist faults bench bench-quick server-named deploy notify clean

install: $(STAMP)
install-dev: $(DEV_STAMP)

$(DEV_STAMP): override EXTRAS = dev
$(DOCS_STAMP): override EXTRAS = docs
$(FLOWS_STAMP): override EXTRAS = $(FLOWS)
# What lies beside the package of a wheel is copied: no editable installation has it.
# --no-compile: modules become bytecode when they are first used; most never are.
$(sort $(STAMP) $(DEV_STAMP) $(DOCS_STAMP) $(FLOWS_STAMP)): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 (with venv) was found." \
	  "Install one, or name it: make install PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Installing fewpass$(if $(EXTRAS),[$(EXTRAS)]) and what it needs into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile \
	  -c constraints.txt -e '.$(if $(EXTRAS),[$(EXTRAS)])'
	@cp flows/orchestration/fewpass_prefect_run.pth $(VENV)/lib/python3*/site-packages
	@touch $@

demo: install
	@$(BIN)/fewpass demo $(FOLDER) --size $(SIZE) --memory $(MEMORY)

test: install-dev
	$(PYTEST) $(if $(ORDER),--order '$(ORDER)')

test-public-data: install-dev
	@test -d "$(FEWPASS_DATA)" || { echo "Say where the public data sets are:" \
	  "make test-public-data FEWPASS_DATA=/path/to/them (tests/data/README.md)." >&2; exit 2; }
	$(PYTEST) -m public_data $$(grep -rl public_data tests --include 'test_*.py')

faults: install-dev
	@TMPDIR=$(TEST_TMP) $(BIN)/python -m tests.faults.campaign --size $(FAULTS_SIZE)

lint: install-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

# A site to be read without a network: site/index.html. A warning is an error. Pages of results and of
# commands are made with it, by what measured and by what runs them.
docs: install-dev $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

# The wheel has compiled kernels, for one Python, whose tag it gets: make dist PYTHON=python3.13 makes
# another one.  What ~/.cache/fewpass has of them is not compiled again.
dist: install-dev
	@rm -f dist/*.tar.gz
	$(BIN)/python -m build --installer pip --sdist -o dist . > /dev/null
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  tar -xzf dist/*.tar.gz --strip-components 1 -C "$$folder" && \
	  $(BIN)/python -m fewpass.pipeline.packaged_kernels "$$folder/fewpass/solvers/kernels/packaged" && \
	  tag=cp$$($(BIN)/python -c 'import sys; print(*sys.version_info[:2], sep="")') && \
	  rm -f dist/*-$$tag-*.whl && $(BIN)/python -m build --installer pip --wheel \
	    -C=--build-option=--python-tag=$$tag -o dist "$$folder" > /dev/null
	@ls dist/*

$(PEERS_STAMP): pyproject.toml constraints.txt benchmarks/peers.txt
	@echo "Installing fewpass and what it is compared with into $(PEERS)"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check --no-compile \
	  -c constraints.txt -r benchmarks/peers.txt -e '.[dask-ml]'
	@touch $(PEERS_STAMP)

# On a machine that does nothing else; three quarters of an hour and 4 GB of disk.
bench: $(PEERS_STAMP)
	$(PEERS)/bin/python -m benchmarks.suite --folder "$(BENCH_FOLDER)"
	$(PEERS)/bin/python -m benchmarks.suite.page

bench-quick: $(PEERS_STAMP)
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  $(PEERS)/bin/python -m benchmarks.suite --quick --folder "$$folder" \
	    --results "$$folder/results.jsonl" && \
	  $(PEERS)/bin/python -m benchmarks.suite.page --quick --results "$$folder/results.jsonl" \
	    --page "$$folder/performance.md"
	$(PEERS)/bin/python -m benchmarks.coming_from

server-named:
	@test -n "$$PREFECT_API_URL" || { echo "Say which server: PREFECT_API_URL=http://... make $(MAKECMDGOALS)" \
	  "(prefect server start --host 127.0.0.1 starts one here)." >&2; exit 2; }

deploy: server-named $(PREFECT_STAMP)
	@FEWPASS_HOME=$(CURDIR) FEWPASS_STORE=$(STORE) $(BIN)/python -m fewpass.flows.orchestration.deploying

# The webhook's address is a secret: it comes from the environment, FEWPASS_WEBHOOK.
notify: server-named $(PREFECT_STAMP)
	@$(BIN)/python -m fewpass.flows.orchestration.notifications $(BLOCK)

clean:
	rm -rf .venv .venv-* build dist site *.egg-info demo-output .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
