# Two commands do everything on a machine that has python3 and make:
#   make demo   the main job on data that ships with scikit-learn, and a report to look at
#   make test   everything that guards the project
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint compiled setup clean

setup: .venv/ready

# Installed once, and again whenever the dependencies change.
.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: setup
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

compiled: setup
	$(BIN)/python -m nearkin.app.warmup

clean:
	rm -rf .venv demo build dist
