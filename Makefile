# Two commands do everything on a machine that has python3 and make:
#   make demo   the main job on data that ships with scikit-learn, and a report to look at
#   make test   linters, types, layers and the tests of every day
# and, before a release, make test-all: what takes minutes or a cluster, too, and every array access
# of the compiled code checked. make torture attacks everything public: bad inputs, damaged files,
# kills, full disks.
PYTHON ?= python3
BIN := .venv/bin

SEED ?= 0
JOBS ?= 2

.PHONY: demo test test-all torture docs lint compiled setup clean

setup: .venv/ready

# Installed once, and again whenever the dependencies change.
.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch .venv/usable $@

# What a user needs: a third of it.
.venv/usable: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

demo: .venv/usable
	$(BIN)/nearkin demo --out demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# While the linters read, everything is compiled, once for all the processes that tests start.
test: setup
	$(MAKE) --jobs=2 lint compiled
	$(BIN)/python -m pytest -n 2

# What is skipped is named, with the reason, at the end.
test-all: setup
	$(MAKE) --jobs=2 lint compiled
	$(BIN)/python -m pytest -n 2 -m 'slow or not slow' -rs
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/boundscheck $(BIN)/python -m pytest -n 2 -rs \
		tests/native tests/learning tests/neighbors tests/test_neighborhoods.py

# The pages of docs/ and the docstrings as a site; a warning, such as a link to nowhere, is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html; to search it: python3 -m http.server --directory build/site --bind 127.0.0.1"

# An hour and a half at most; SEED=1 draws other cases.
torture: setup compiled
	cd tests && PYTHONPATH=helpers ../$(BIN)/python -m hostile --seed $(SEED) --jobs $(JOBS)

compiled: setup
	$(BIN)/python -m nearkin.app.warmup

clean:
	rm -rf .venv demo build dist
