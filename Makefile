# What a fresh clone needs: python3 (3.11 or later), make and a package index that pip knows.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written last, so that an environment whose making was interrupted is made again.
READY := $(VENV)/.ready
CELERY := tests/system/celery
CELERY_VENV := .venv-celery
CELERY_READY := $(CELERY_VENV)/.ready

.PHONY: help demo up test test-system test-others test-fast test-slow test-slow-system test-slow-others test-lowest test-matrix chaos thousand events latency short-runs distributed soak lint docs bench dist constraints clean
.DELETE_ON_ERROR:

help:
	@echo "make demo         run the example pipeline on real Airflow components, and check the result"
	@echo "make up           the same, left running until Ctrl-C"
	@echo "make test         unit and contract tests, and the most important system tests"
	@echo "make test-fast    unit tests"
	@echo "make test-slow    all other tests, and the property tests with more examples"
	@echo "make test-lowest  tests that depend on the version of Airflow, with the oldest Airflow and Python"
	@echo "make test-matrix  all tests on each Airflow and Python that is supported, as far as they are here"
	@echo "make chaos        500 tasks against a hostile service; then kill everything at every step, and count the runs"
	@echo "make thousand     a thousand deferred tasks in one triggerer, and their cost"
	@echo "make events       restart the triggerer while 500 runs end, and count the events"
	@echo "make latency      seconds from the end of a run to the success of its task, by executor and mode"
	@echo "make short-runs   500 short deferred tasks without retries on LocalExecutor"
	@echo "make distributed  two of each component on CeleryExecutor, while everything is killed"
	@echo "make soak HOURS=2 the same deployment for hours: memory, connections and rows stay flat"
	@echo "make lint         ruff, mypy, and measurements of the style"
	@echo "make docs         build the documentation into docs/_build"
	@echo "make bench        benchmarks"
	@echo "make dist         wheel and sdist, checked, into dist"
	@echo "make constraints  pin the installed versions in constraints.txt, and those for older Airflow versions"
	@echo "make clean        remove all files that these targets created"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "This needs Python 3.11 or later, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || \
	  echo "Not tried with $$($(PYTHON) -V): if something does not install, make PYTHON=python3.13" >&2
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@# Compiled here, by all cores: else the first start of Airflow compiles while the demo waits.
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt -e '.[dev]'
	@touch $@

# CeleryExecutor and PostgreSQL as Airflow's database: in an environment of its own, as the tests need neither.
$(CELERY_READY): $(READY) $(CELERY)-requirements.txt $(CELERY)-constraints.txt
	@test -x $(CELERY_VENV)/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python $(CELERY_VENV)
	$(BIN)/uv pip install --quiet --python $(CELERY_VENV)/bin/python --compile-bytecode \
	  -c constraints.txt -c $(CELERY)-constraints.txt -r $(CELERY)-requirements.txt -e '.[dev]'
	@touch $@

# exec: a Ctrl-C or SIGTERM then reaches the demo itself, and no shell in between.
demo: $(READY)
	@exec $(BIN)/python -m tests.system.demo

up: $(READY)
	@exec $(BIN)/python -m tests.system.demo --keep

# Three workers on two cores: half of the time they wait for a service. Files are started in the order of their names, with
# the contract tests first, which take longest: else a long file that starts last runs alone.
# System tests run beside the others: they wait half of the time.
# Tests start thousands of processes, which would all compile the same modules without bytecode files.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
LONGEST_FIRST := --dist loadfile --no-loadscope-reorder
SPREAD := -n 3 $(LONGEST_FIRST)

test: $(READY)
	@$(MAKE) --no-print-directory -j 2 test-system test-others

test-system: $(READY)
	$(PYTEST) tests/system -m "fast or medium"

test-others: $(READY)
	$(PYTEST) tests/contract tests/unit -m "fast or medium" $(SPREAD)

test-fast: $(READY)
	$(PYTEST) tests/unit -m fast $(SPREAD)

# One test runs the distributed deployment, with the packages of CeleryExecutor.
test-slow: $(READY) $(CELERY_READY)
	@$(MAKE) --no-print-directory -j 2 test-slow-system test-slow-others

# Two sets of Airflow components. Each file runs in one process, because its tests share the runs of their DAGs.
test-slow-system: $(READY) $(CELERY_READY)
	$(PYTEST) tests/system -m slow -n 2 $(LONGEST_FIRST)

test-slow-others: $(READY)
	$(PYTEST) tests/contract tests/unit -m "slow or property" --hypothesis-profile=large $(SPREAD)

test-lowest: $(READY)
	@exec $(BIN)/python -m tests.packaging.matrix --lowest

# MATRIX: a part of it, such as MATRIX="--airflow 3.1 --suite provider".
test-matrix: $(READY)
	@exec $(BIN)/python -m tests.packaging.matrix $(MATRIX)

chaos: $(READY)
	@exec $(BIN)/python -m tests.system.chaos

thousand: $(READY)
	@exec $(BIN)/python -m tests.system.thousand

events: $(READY)
	@exec $(BIN)/python -m tests.system.events

# LATENCY: options, such as LATENCY="--quick" or LATENCY="--write".
latency: $(CELERY_READY)
	@exec $(CELERY_VENV)/bin/python -m tests.system.latency $(LATENCY)

# SHORT_RUNS: options, such as SHORT_RUNS="--minimum-deferral-time 0".
short-runs: $(CELERY_READY)
	@exec $(CELERY_VENV)/bin/python -m tests.system.short_runs $(SHORT_RUNS)

# DISTRIBUTED: options, such as DISTRIBUTED="--tasks 1000 --post-kills 50" or DISTRIBUTED="--tasks 0 --deferred 2000".
distributed: $(CELERY_READY)
	@exec $(CELERY_VENV)/bin/python -m tests.system.distributed $(DISTRIBUTED)

# HOURS: the duration. SOAK: further options, such as SOAK="--write".
HOURS ?= 2

soak: $(CELERY_READY)
	@exec $(CELERY_VENV)/bin/python -m tests.system.distributed.soak --hours $(HOURS) $(SOAK)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m tests.packaging.style

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# BENCH_PYTHON: the interpreter that is measured; with peers installed beside Airflow, they are measured, too.
BENCH_PYTHON ?= $(BIN)/python

bench: $(READY)
	@exec $(BIN)/python -m tests.benchmarks --python $(BENCH_PYTHON)

dist: $(READY)
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist
	$(BIN)/python -m twine check --strict dist/*

# Versions only: no addresses, no local paths, nothing editable. What the environment has stays as it is; what only an
# extra needs that is not installed is the newest that goes with it.
constraints: $(READY)
	$(BIN)/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^ ]+$$' > constraints.txt.now
	echo uv | $(BIN)/uv pip compile --quiet --python $(BIN)/python --all-extras -c constraints.txt.now \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml - > constraints.txt.new
	rm constraints.txt.now
	mv constraints.txt.new constraints.txt
	$(BIN)/uv pip compile --quiet --python $(BIN)/python --all-extras -c constraints.txt --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links pyproject.toml $(CELERY)-requirements.txt \
	  | grep -vxFf constraints.txt > $(CELERY)-constraints.txt
	$(BIN)/python -m tests.packaging.pins

clean:
	rm -rf $(VENV) $(CELERY_VENV) .venv-matrix build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
