# The project's commands; `make` alone lists them. Where packages come from is pip's own business (PIP_* variables, pip.conf).
# The first that is new enough, can make environments, and was compiled with optimizations, as those of distributions are; a
# build without them is slower. Where there is none: whatever python3 is.
FIT := import ensurepip, sys, sysconfig; plain = sysconfig.get_config_var("PGO_PROF_USE_FLAG"); \
  given = sysconfig.get_config_var("CONFIG_ARGS") or ""; \
  sys.exit(sys.version_info < (3, 11) or bool(plain) and "--enable-optimizations" not in given)
PYTHON ?= $(or $(shell for each in $$(which -a python3); do $$each -c '$(FIT)' 2> /dev/null && echo $$each && break; done),python3)
BIN := .venv/bin
MADE := .venv/.made
RUNTIME := .venv/.runtime
DEV := .venv/.dev

COUNT ?= 1000

# The tests of a file share its servers; and which file is first is said in tests/conftest.py.
IN_OUR_ORDER := --dist loadfile --no-loadscope-reorder

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help serve test check fix sim mutants proof bench demo requirements lint

help: ## list these commands
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

serve: $(RUNTIME) ## run a server on this machine, SQLite inside (ARGS="--port 9000" for options)
	@exec $(BIN)/openintent serve $(ARGS)

test: $(DEV) lint ## all checks and all tests, as CI runs them
	$(BIN)/pytest -n 2 tests/core --cov --cov-report=term-missing:skip-covered
	$(BIN)/pytest -n 4 $(IN_OUR_ORDER) -m "not alone" --ignore=tests/core
	$(BIN)/pytest -n 3 $(IN_OUR_ORDER) -m "alone and not busy"
	$(BIN)/pytest -m "alone and busy"

check: $(DEV) lint ## the quick part of `make test`: everything that is not marked slow
	$(BIN)/pytest -n 3 $(IN_OUR_ORDER) -m "not slow and not alone"

fix: $(DEV) ## put the code into shape: formatting, and lint that can mend itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sim: $(DEV) ## simulate many histories in virtual time (COUNT=1000; SERVERS=3 on one engine; SEED=7 tells the story of one)
	PYTHONPATH=tests:tests/sim $(BIN)/python tests/sim/simulate.py --count $(COUNT) $(if $(SEED),--seed $(SEED)) $(if $(SERVERS),--servers $(SERVERS))

mutants: $(DEV) ## plant every deliberate bug, and see that some test finds it
	PROOF_MUTANTS=0 $(BIN)/pytest -q -n0 tests/mutants

proof: $(DEV) ## prove all that is promised, and write docs/proof.md (LONG=1: the full sizes, about an hour)
	$(BIN)/python proof/run.py $(if $(LONG),--long) $(ARGS)

bench: $(DEV) ## measure us and others, and write docs/benchmarks.md (ARGS="--quick": small sizes, two minutes)
	$(BIN)/python bench/run.py $(ARGS)

demo: $(RUNTIME) ## six agents, a crash and a hang, on a server in memory (ARGS="--seconds 60")
	@exec $(BIN)/openintent demo $(ARGS)

requirements: ## pin requirements/*.txt anew from requirements/*.in, each in a fresh environment
	for name in runtime dev; do \
	  env=$$(mktemp -d) && $(PYTHON) -m venv $$env && $$env/bin/pip install --quiet -r requirements/$$name.in && \
	  $$env/bin/pip freeze | sed 's/^uvloop.*/&; sys_platform != "win32"/' > requirements/$$name.txt && rm -r $$env || exit 1; \
	done

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=src:bench:bench/clients $(BIN)/mypy --strict bench/run.py bench/instructions.py bench/hotpath.py bench/clients/*.py

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "This needs Python 3.11 or newer as $(PYTHON); name another one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "$(PYTHON) cannot make a virtual environment; on Debian: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(RUNTIME): $(MADE) requirements/runtime.txt pyproject.toml
	$(BIN)/pip install --quiet -r requirements/runtime.txt
	$(BIN)/pip install --quiet --no-deps -e .
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.txt
	$(BIN)/pip install --quiet -r requirements/dev.txt
	@touch $@
