# Grove: `make help` lists the targets. Every target makes .venv if it is missing.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
THREADS ?= 2
CUDA ?= $(or $(shell nvidia-smi 2>/dev/null | sed -nE 's/.*CUDA Version: ([0-9]+).*/\1/p'),12)
QUICK := accel/verify tests/training/test_loop.py::test_the_loss_falls_and_the_best_parameters_are_kept
FRAMEWORKS := tests/kernels/test_arrays.py tests/examples/test_kernels.py tests/trained/test_albert_peers.py \
  tests/trained/test_albert_weights.py tests/examples/test_torch_on_lstm.py tests/torch
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.PHONY: help demo test test-quick test-frameworks test-portable check bench results test-gpu test-gpu-here test-deep kill-runs
.PHONY: mutants vectors clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*##/ {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Grove needs Python 3.11 or newer: make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot]'
	touch $@

$(VENV)/.test: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot,test,mpi]'
	touch $@

$(VENV)/.frameworks: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot,test,mpi,frameworks,peers]'
	touch $@

$(VENV)/.cuda$(CUDA): $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot,test,mpi,cuda$(CUDA)]'
	touch $@

$(VENV)/.bench: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot,bench]'
	touch $@

$(VENV)/.mutants: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plot,test,mutants]'
	touch $@

demo: $(VENV)/.base  ## (2 minutes) train three small models on generated sentences; write runs/demo/report.html
	$(ONE_THREAD) $(BIN)/python -m examples.transformer_grammars.demo

test: $(VENV)/.test  ## (15 to 30 minutes on 2 cores) run all tests on the same examples every time: fast code against the reference
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) $(PYTEST_OPTIONS)

test-quick: $(VENV)/.test  ## (90 seconds on 2 cores) test every operation and gradient on few examples, all vectors, one training
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) --hypothesis-profile quick $(QUICK) $(PYTEST_OPTIONS)

test-frameworks: $(VENV)/.frameworks  ## (4 minutes on 2 cores) install PyTorch, JAX, Triton and transformers, and run the tests that need them
	$(BIN)/python -W ignore -c 'import jax, torch, transformers'
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) $(FRAMEWORKS) $(PYTEST_OPTIONS)
	$(ONE_THREAD) $(BIN)/python -m pytest accel/verify --backend accel.torch.ops --hypothesis-profile quick

test-portable: $(VENV)/.test  ## (80 minutes on 2 cores) run all tests with the kernels of other processors, nine settings; print a table
	$(BIN)/python -m tests.house.portable -n $(THREADS) $(PYTEST_OPTIONS)

check: $(VENV)/.test  ## (1 minute) run ruff, mypy on the reference and the Python interface, doctests, and the tests of links and imports
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(ONE_THREAD) $(BIN)/python -m pytest --doctest-modules --doctest-ignore-import-errors --import-mode importlib -o consider_namespace_packages=true \
		refimpl accel examples --ignore accel/verify --ignore accel/torch
	$(ONE_THREAD) $(BIN)/python -m pytest tests/house

bench: $(VENV)/.bench  ## time the backends beside plain PyTorch, equal threads, medians; write benchmarks/results/
	$(BIN)/python -m benchmarks.run --threads $(THREADS)

results: $(VENV)/.base  ## make the runs for examples/RESULTS.md, or resume them: make results DATA=FOLDER [QUEUE='--at-once 1']
	$(ONE_THREAD) $(BIN)/python -m examples.queue $(if $(DATA),--data '$(DATA)') $(QUEUE)

test-gpu: $(VENV)/.cuda$(CUDA)  ## install CuPy and Numba CUDA for the driver's CUDA (or CUDA=12|13), and run all tests on a real GPU
	$(ONE_THREAD) $(BIN)/python -m pytest --require cuda $(PYTEST_OPTIONS)

test-gpu-here:  ## the same with the packages of this machine's own python3, without .venv and pip
	$(ONE_THREAD) $(PYTHON) -m pytest --require cuda $(PYTEST_OPTIONS)

test-deep: $(VENV)/.test  ## (hours) run the property tests with 2,000 random examples each, new ones every time
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(THREADS) --hypothesis-profile deep accel/verify tests/reference/test_oracle.py tests/reference/test_trees.py tests/data/test_brackets.py

kill-runs: $(VENV)/.test  ## (3 minutes) kill 1,000 trainings at random moments and resume them; interrupt 100 others
	$(BIN)/python -m tests.training.kill_runs

mutants: $(VENV)/.mutants  ## (hours) test 500 wrong versions of our own code, or resume; write tests/mutants/REPORT.md
	$(ONE_THREAD) $(BIN)/python -m tests.mutants.run $(MUTANTS)

vectors: $(VENV)/.test  ## rewrite the index in specs/README.md, the counts in specs/coverage.md and the list of vectors
	$(BIN)/python -m tests.house.spec_pages

clean:  ## remove the virtual environment and all caches; keep runs/
	rm -rf $(VENV) .hypothesis .pytest_cache .mypy_cache .ruff_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
