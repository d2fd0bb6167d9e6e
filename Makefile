PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: train test slow format

train: $(INSTALLED)
	$(BIN)/zoo train sgformer-digits-rba

test: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -q

slow: $(INSTALLED)
	$(BIN)/python -m pytest -q -m slow

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch and everything else go in one command, so that the constraints hold for all of it.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $(INSTALLED)
