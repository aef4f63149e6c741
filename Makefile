# What there is: make bench, make test, make parity, make report, make lint, make format
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: bench test parity report lint format clean

bench: $(READY)
	$(BIN)/dlsuite run quick

parity: $(READY)
	$(BIN)/dlsuite parity

report: $(READY)
	$(BIN)/dlsuite report

test: lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than Python 3.11" >&2; \
	    echo "hint: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "making the host's environment (.venv)"
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

clean:
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache
