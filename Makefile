PYTHON ?= python3
BIN := .venv/bin

.PHONY: test test-all lint native sanitize demo bench reproduce docs clean
.DEFAULT_GOAL := test

# What running needs: torch, the package with its compiled loops, and the parts of the report. torch goes first and by
# its exact version: a looser request may pull gigabytes of GPU packages.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
.venv/run: constraints.txt pyproject.toml CMakeLists.txt
	@echo "Setting up .venv, once: Python's environment (1 of 3)"
	@$(PYTHON) -m venv .venv
	@echo "torch, which is large (2 of 3)"
	@$(INSTALL) "$$(grep '^torch==' constraints.txt)"
	@echo "unclump, with its loops compiled for this processor (3 of 3)"
	@CMAKE_ARGS=-DUNCLUMP_THIS_PROCESSOR=ON $(INSTALL) --editable '.[report]' safetensors
	@touch $@

# What the tests need, in the same environment, including loops for every instruction set.
.venv/ready: .venv/run
	@echo "Adding what the tests need, about 2 GB"
	@CMAKE_ARGS=-DUNCLUMP_THIS_PROCESSOR=OFF $(INSTALL) --editable '.[dev]'
	@touch $@

# What the documentation needs, in the same environment.
.venv/docs: .venv/ready
	@echo "Adding what the documentation needs"
	@$(INSTALL) --editable '.[docs]'
	@touch $@

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.cpp' '*.hpp')
	$(BIN)/mypy

# Tests start many processes, which would all compile the package anew where bytecode is not to be written.
test test-all: export PYTHONDONTWRITEBYTECODE :=

# The quick run leaves out what is marked `deep`: experiments, tools, repetitions, cases that another one stands for.
test: lint
	$(BIN)/pytest -n 2 --dist loadgroup -m "not deep"

test-all: lint
	$(BIN)/pytest -n 2 --dist loadgroup

# The loops in C++ again, after a change: the installation has compiled them once.
native:
	cmake -S . -B build/editable -DUNCLUMP_WARNINGS_AS_ERRORS=ON -DUNCLUMP_THIS_PROCESSOR=OFF
	cmake --build build/editable

# The tests of the operations, with loops that the compiler's sanitisers watch.
sanitize: .venv/ready
	tools/sanitize.sh address,undefined
	tools/sanitize.sh thread

demo: .venv/run
	@$(BIN)/python -m unclump demo

bench: .venv/ready
	$(BIN)/python benchmarks/steps.py

# The quick setting of every experiment; without --quick each takes minutes to hours.
reproduce: .venv/ready
	for script in $(filter-out %/table.py,$(wildcard experiments/[a-z]*.py)); do $(BIN)/python $$script --quick || exit 1; done
	$(BIN)/python experiments/translation table --quick

docs: .venv/docs
	$(BIN)/sphinx-build -W -b html docs docs/_build
	$(BIN)/python tools/check_site.py docs/_build

clean:
	rm -rf .venv docs/_build docs/_generated docs/jupyter_execute
