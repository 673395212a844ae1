# noisegate needs only Python >= 3.11, make and a package index: everything else is installed into .venv here.
#
#   make demo     a differentially private copy of a real survey, with its certificate
#   make test     everything that must hold before a change is merged
#
# PYTHON=/path/to/python chooses the interpreter; NOISEGATE_TEST_DATA=DIR also runs the tests marked `data`.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# uv installs exactly what uv.lock lists. It has its own environment, so that a sync does not remove it.
UV_VERSION := 0.13
TOOLS := .venv-tools
UV_READY := $(TOOLS)/.uv-$(UV_VERSION)
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(SCRIPTS)
# The system's certificates, as pip uses them: hospitals and banks put their own in front of the package index.
UV := env -u VIRTUAL_ENV UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1 $(TOOLS)/$(SCRIPTS)/uv
WORKERS ?= 2
# The tests of one package alone, as in `make test PACKAGE=noisegate`; all where it is not given.
TESTS = $(if $(PACKAGE),packages/$(PACKAGE)/tests)
DATA_OPTION = $(if $(NOISEGATE_TEST_DATA),--data="$(NOISEGATE_TEST_DATA)")

# One thread per worker: the suite is parallel already, and sums must not depend on thread counts.
export OMP_NUM_THREADS = 1
# Tests start many processes: without byte code, each would spend seconds on compiling what it imports.
unexport PYTHONDONTWRITEBYTECODE

# $(call check,what is checked,command,command that fixes it)
define check
	@printf '\n== %s\n' '$(1)'
	@$(2) || { printf '\nThe step "%s" failed. To fix it: %s\n' '$(1)' '$(3)' >&2; exit 1; }
endef

.PHONY: help demo test checks test-slow test-kernels mutation house lint format types borders docs lock-check bench-adult scoreboard papers gpu-queue clean environment

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

environment: .venv/.installed ## install everything into .venv (the other targets do it when needed)

demo: .venv/.demo ## synthesise the survey that ships with statsmodels, at epsilon 1; installs about 900 MB
	@env -u OMP_NUM_THREADS $(BIN)/noisegate demo

# pytest runs last: its closing summary is the last thing a reader sees. What comes before takes one core each.
test: .venv/.installed ## all checks, then the tests; of one package with PACKAGE=noisegate
	@$(MAKE) -j 2 checks
	$(call check,tests,$(BIN)/pytest -n $(WORKERS) -m "not slow" $(DATA_OPTION) $(TESTS),see the first failure above; rerun only what failed with: $(BIN)/pytest --last-failed)

checks: lock-check lint types borders docs house

test-slow: .venv/.installed ## the tests that take longer than a minute, and a sample of mutants
	$(call check,slow tests,$(BIN)/pytest -n $(WORKERS) -m slow $(DATA_OPTION) $(TESTS),rerun only what failed with: $(BIN)/pytest -m slow --last-failed)
	@$(MAKE) mutation

mutation: .venv/.installed ## mutation score of a sample; MUTATION='--share 0.2 --seed 1 --survivors FILE' for another
	@$(UV) sync --frozen --quiet --inexact --group mutation
	$(call check,mutation score,nice $(BIN)/python tests/mutation/score.py --processes $(WORKERS) $(MUTATION),tests/mutation/README.md says how to read the survivors)

# What the kernels of other processors do: those of MKL that it has for them, torch's own without vectors, and products
# that round by the place of a record in its block.
KERNEL_TESTS := tests/contracts $(foreach room,gate queries models methods,$(wildcard packages/*/tests/$(room))) \
  packages/noisegate-papers/tests/test_estimators.py packages/noisegate-papers/tests/cli/test_explain.py
# $(call with_kernels,environment,options of pytest)
define with_kernels
	$(call check,tests with kernels of $(1)$(2),env $(1) $(BIN)/pytest -n $(WORKERS) -m "not slow" $(2) $(KERNEL_TESTS),see the first failure above)
endef

test-kernels: .venv/.installed ## what computes in floating point, with the kernels of other processors
	$(call with_kernels,MKL_CBWR=COMPATIBLE)
	$(call with_kernels,MKL_CBWR=AVX2)
	$(call with_kernels,ATEN_CPU_CAPABILITY=default)
	$(call with_kernels,,--kernels-by-place)

house: .venv/.installed ## size, density, documentation, the trusted base, what a run enters, the base install, doctests: each with its limit
	$(call check,the house,$(BIN)/python tests/house/measure.py $(HOUSE),mend the figure that is beyond its limit in tests/house/limits.toml)

lock-check: .venv/.installed
	$(call check,uv.lock matches pyproject.toml,$(UV) lock --check --offline --quiet,$(TOOLS)/$(SCRIPTS)/uv lock)

lint: .venv/.installed ## ruff: rules and layout
	$(call check,ruff rules,$(BIN)/ruff check --quiet .,make format (and by hand what is left))
	$(call check,ruff layout,$(BIN)/ruff format --check --quiet .,make format)

types: .venv/.installed ## mypy, strict
	$(call check,types,$(BIN)/mypy --no-error-summary,annotate the lines above; rerun with: make types)

borders: .venv/.installed ## import-linter: the border and the rooms
	$(call check,import borders,$(BIN)/lint-imports --no-logo,move the import to the side it belongs to (.importlinter says why); rerun with: make borders)

docs: .venv/.installed ## build the documentation into site/, warnings are errors
	$(call check,documentation,NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict,correct the page named above; read it with: $(BIN)/mkdocs serve)

format: .venv/.installed ## let ruff repair what it can
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format --quiet .

bench-adult: .venv/.installed ## the Adult benchmark; DATA= is the folder with train.csv and test.csv
	@test -n "$(DATA)" || { echo 'Name the folder that holds train.csv and test.csv: make bench-adult DATA=DIR' >&2; exit 2; }
	@env -u OMP_NUM_THREADS $(BIN)/python benchmarks/adult/run.py --data "$(DATA)"

scoreboard: .venv/.installed ## what a change of queries, models or methods costs or gains; DATA= is the folder of data sets, BOARD= more options
	@$(BIN)/python benchmarks/scoreboard/run.py $(if $(DATA),--data "$(DATA)") $(BOARD)

papers: .venv/.installed ## the papers' tables and figures; DATA= is the folder of data sets, HOURS= the budget, PAPERS= more options
	@env -u OMP_NUM_THREADS $(BIN)/python benchmarks/papers/run.py $(if $(DATA),--data "$(DATA)") $(if $(HOURS),--hours $(HOURS)) $(PAPERS)

gpu-queue: .venv/.installed ## what waits for a GPU, nine minutes a job; DATA= is the folder of data sets, OUT= keeps runs, GPU= more options
	@$(BIN)/python benchmarks/gpu/run.py $(if $(DATA),--data "$(DATA)") $(if $(OUT),--out "$(OUT)") $(GPU)

clean: ## remove everything that make created
	rm -rf .venv $(TOOLS) site dist packages/*/dist build mutants .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# A suitable interpreter is at least 3.11 and can create environments (Debian packages venv apart). The oldest
# supported version comes first: it is the one the checks are run with. An existing .venv keeps its own.
SUITABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

$(UV_READY):
	@python='$(PYTHON)'; \
	if [ -z "$$python" ]; then \
	  for candidate in .venv/bin/python python3.11 python3.12 python3.13 python3 python; do \
	    if $$candidate -c '$(SUITABLE)' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	  done; \
	fi; \
	if [ -z "$$python" ]; then \
	  echo 'No Python >= 3.11 with the venv module was found on PATH. Install one (on Debian and Ubuntu also' >&2; \
	  echo 'python3-venv), or name one: make PYTHON=/path/to/python3.12' >&2; exit 1; \
	elif ! $$python -c '$(SUITABLE)' >/dev/null 2>&1; then \
	  echo "PYTHON=$$python is $$($$python --version 2>&1); expected Python >= 3.11 with the venv module." >&2; \
	  echo 'Name another one: make PYTHON=/path/to/python3.12' >&2; exit 1; \
	fi; \
	echo "Installing uv with $$($$python --version), once."; \
	$$python -m venv $(TOOLS) && echo '*' > $(TOOLS)/.gitignore && \
	$(TOOLS)/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check 'uv~=$(UV_VERSION).0' || \
	{ rm -rf $(TOOLS); echo 'uv could not be installed: is a package index reachable (pip config list)?' >&2; exit 1; }
	@touch $@

# What tables and their pages need, without torch and the tools of developers; `make test` installs the rest beside it.
.venv/.demo: uv.lock pyproject.toml $(wildcard packages/*/pyproject.toml) $(UV_READY)
	@if [ -e .venv/.installed ]; then $(MAKE) .venv/.installed; else \
	  echo 'Installing noisegate for tables into .venv: about 900 MB, once.'; \
	  $(UV) sync --frozen --quiet --python $(TOOLS)/$(SCRIPTS)/python --package noisegate --extra demo --no-default-groups || \
	  { echo 'Installation failed. To try again: make demo' >&2; \
	    echo 'Behind a mirror of the package index, see "Behind a mirror" in CONTRIBUTING.md.' >&2; exit 1; }; \
	fi
	@touch $@

.venv/.installed: uv.lock pyproject.toml $(wildcard packages/*/pyproject.toml) $(UV_READY)
	@echo 'Installing noisegate and its tools into .venv (some minutes the first time).'
	@$(UV) sync --frozen --quiet --python $(TOOLS)/$(SCRIPTS)/python || \
	{ echo 'Installation failed. To try again: make environment' >&2; \
	  echo 'Behind a mirror of the package index, see "Behind a mirror" in CONTRIBUTING.md.' >&2; exit 1; }
	@touch $@
