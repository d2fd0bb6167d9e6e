PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/installed
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
CONSTRAINTS := constraints$(patsubst %,-%,$(filter 3.12 3.13 3.14,$(VERSION))).txt

.PHONY: train test slow bench studies pages format wheel docs

train: $(INSTALLED)
	$(BIN)/zoo train sgformer-digits-rba

test: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n auto --dist worksteal

slow: $(INSTALLED)
	$(BIN)/python -m pytest -q -n auto -m slow

# Peers beside the zoo, at sizes that take minutes; each script takes --full.
bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --config-settings editable_mode=compat --editable '.[test,bench]'
	for script in startup propagation laplacian random_walk sgformer_step model_steps edge_steps growth; do \
	  $(BIN)/python -W ignore benchmarks/$$script.py || exit 1; done

# Predictions beside measurements, in minutes; `make studies OPTIONS=` takes hours.
STUDIES := rba_theory rba_cost rba_devices rba_control rba_clusters rba_evaluation rba_pairs difformer_energy batching transfer
OPTIONS := --quick

studies: $(INSTALLED)
	for script in $(STUDIES); do $(BIN)/python -W ignore benchmarks/studies/$$script.py $(OPTIONS) || exit 1; done

# The README.md of each folder of recipes, docs/results.md and its picture.
pages: $(INSTALLED)
	$(BIN)/python -W ignore benchmarks/pages.py

# A broken link, and a public name or an option without a sentence, end it. To look at it:
# python -m http.server -d build/site
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/site/mkdocs.yml

# Needs no .venv: the wheel goes into a fresh environment, and is used from an empty folder.
wheel:
	$(PYTHON) tests/wheel.py $(CONSTRAINTS)

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch and everything else go in one command, so that the constraints hold for all of it; editors
# that read code without running it find an editable install by its path alone, `compat`.
$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	@test -n "$(filter 3.11 3.12 3.13 3.14,$(VERSION))" || \
	  { echo "There are constraints for Python 3.11 to 3.14: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --config-settings editable_mode=compat --editable '.[test]'
	touch $(INSTALLED)
