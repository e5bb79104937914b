# Grove: `make help` lists what there is. Every target makes .venv itself where it is missing.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
THREADS ?= 2
QUICK := accel/verify tests/training/test_loop.py::test_the_loss_falls_and_the_best_parameters_are_kept
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.PHONY: help demo test test-quick test-portable check bench results test-gpu test-deep vectors clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

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

demo: $(VENV)/.base  ## (3 minutes) train three small models on generated sentences, and write runs/demo/report.html
	$(ONE_THREAD) $(BIN)/python -m examples.transformer_grammars.demo

test: $(VENV)/.test  ## (8 minutes on 2 cores) the whole test suite, the same examples at every run: fast code against the reference
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) $(PYTEST_OPTIONS)

test-quick: $(VENV)/.test  ## (90 seconds on 2 cores) every operation and gradient on few examples, all vectors, one training
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) --hypothesis-profile quick $(QUICK) $(PYTEST_OPTIONS)

test-portable: $(VENV)/.test  ## (80 minutes on 2 cores) the suite under the kernels of nine other processors and settings; prints a table
	$(BIN)/python -m tests.house.portable -n $(THREADS) $(PYTEST_OPTIONS)

check: $(VENV)/.test  ## (1 minute) ruff, mypy on the reference, doctests, links between pages, code and tests
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(ONE_THREAD) $(BIN)/python -m pytest --doctest-modules refimpl
	$(ONE_THREAD) $(BIN)/python -m pytest tests/house

bench: $(VENV)/.bench  ## time the backends beside plain PyTorch, equal threads, medians; writes benchmarks/results/
	$(BIN)/python -m benchmarks.run --threads $(THREADS)

results: $(VENV)/.base  ## make the runs behind the tables of examples/RESULTS.md, or go on: make results DATA=FOLDER [QUEUE='--at-once 1']
	$(ONE_THREAD) $(BIN)/python -m examples.queue $(if $(DATA),--data '$(DATA)') $(QUEUE)

test-gpu: $(VENV)/.test  ## the test suite on a real GPU: needs the extra cuda12 or cuda13
	$(ONE_THREAD) $(BIN)/python -m pytest --require cuda $(PYTEST_OPTIONS)

test-deep: $(VENV)/.test  ## (hours) the property tests with 2,000 random examples each, others at every run
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) --hypothesis-profile deep accel/verify tests/reference/test_oracle.py tests/reference/test_trees.py tests/data/test_brackets.py

vectors: $(VENV)/.test  ## rewrite the index of the specifications
	$(BIN)/python -m tests.house.spec_pages

clean:  ## remove the virtual environment and all caches; runs/ stays
	rm -rf $(VENV) .hypothesis .pytest_cache .mypy_cache .ruff_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
