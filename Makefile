# Every target makes its own environment first: nothing needs to be set up by hand but Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint format bench clean
.DELETE_ON_ERROR:

$(VENV)/.made: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "saccade needs Python 3.11 or newer: $$($(PYTHON) --version) was found; set PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

demo: $(VENV)/.made  ## the main job, from data to a result to look at
	$(BIN)/saccade demo

test: $(VENV)/.made  ## every test
	$(BIN)/python -m pytest

lint: $(VENV)/.made  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.made  ## what lint would complain of and a program can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.made  ## speed, as ratios within one run
	$(BIN)/saccade bench unroll

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
