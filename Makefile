PYTHON ?= python3
BIN := .venv/bin

.PHONY: test test-all lint native sanitize demo bench reproduce docs clean
.DEFAULT_GOAL := test

# torch goes first and by its exact version: a looser request may pull gigabytes of GPU packages.
.venv/ready: constraints.txt pyproject.toml CMakeLists.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.cpp' '*.hpp')
	$(BIN)/mypy

# The quick run leaves out what is marked `deep`: experiments, tools, repetitions, cases that another one stands for.
test: lint
	$(BIN)/pytest -n 2 --dist loadgroup -m "not deep"

test-all: lint
	$(BIN)/pytest -n 2 --dist loadgroup

# The loops in C++ again, after a change: the installation has compiled them once.
native:
	cmake -S . -B build/editable -DUNCLUMP_WARNINGS_AS_ERRORS=ON
	cmake --build build/editable

# The tests of the operations, with loops that the compiler's sanitisers watch.
sanitize: .venv/ready
	tools/sanitize.sh address,undefined
	tools/sanitize.sh thread

demo: .venv/ready
	$(BIN)/python -m unclump demo

bench: .venv/ready
	$(BIN)/python benchmarks/steps.py

# The quick setting of every experiment; without --quick each takes minutes to hours.
reproduce: .venv/ready
	for script in $(filter-out %/table.py,$(wildcard experiments/[a-z]*.py)); do $(BIN)/python $$script --quick || exit 1; done
	$(BIN)/python experiments/translation table --quick

docs: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs,report]'
	$(BIN)/sphinx-build -W -b html docs docs/_build

clean:
	rm -rf .venv docs/_build docs/_generated
