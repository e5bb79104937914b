# Grove: `make help` lists what there is. Every target makes .venv itself where it is missing.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
THREADS ?= 2
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.PHONY: help demo test check bench test-gpu test-deep vectors clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Grove needs Python 3.11 or newer: make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot]'
	touch $@

$(VENV)/.test: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot,test,mpi]'
	touch $@

$(VENV)/.bench: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot,bench]'
	touch $@

demo: $(VENV)/.base  ## train three small models on generated sentences in about three minutes, and write runs/demo/report.html
	$(ONE_THREAD) $(BIN)/python -m examples.transformer_grammars.demo

test: $(VENV)/.test  ## the whole test suite on two processes: fast code against the reference
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) $(PYTEST_OPTIONS)

check: $(VENV)/.test  ## ruff, mypy on the reference, doctests, links between pages, code and tests
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(ONE_THREAD) $(BIN)/python -m pytest --doctest-modules refimpl
	$(ONE_THREAD) $(BIN)/python -m pytest tests/house/test_specs.py tests/house/test_imports.py

bench: $(VENV)/.bench  ## time the backends beside plain PyTorch, equal threads, medians; writes benchmarks/results/
	$(BIN)/python -m benchmarks.run --threads $(THREADS)

test-gpu: $(VENV)/.test  ## the test suite on a real GPU: needs the extra cuda12 or cuda13
	$(ONE_THREAD) $(BIN)/python -m pytest --require cuda $(PYTEST_OPTIONS)

test-deep: $(VENV)/.test  ## the property tests with 2,000 random examples each
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) --hypothesis-profile deep accel/verify/test_values.py accel/verify/test_gradients.py tests/reference/test_oracle.py tests/reference/test_trees.py tests/data/test_brackets.py

vectors: $(VENV)/.test  ## rewrite the index of the specifications
	$(BIN)/python -m tests.house.spec_pages

clean:  ## remove the virtual environment and all caches; runs/ stays
	rm -rf $(VENV) .hypothesis .pytest_cache .mypy_cache .ruff_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
