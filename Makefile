# Every target makes .venv and installs what it needs; stamp files make the second time quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.installed-base
STACK := $(VENV)/.installed-stack
RIVALS := $(VENV)/rivals

# The training stack that the tests, the demo and the benchmarks run on.
TORCH := torch==2.13.0
LIBRARIES := transformers==5.24.0 accelerate==1.15.0 peft==0.21.2 lightning==2.6.6

# Tests that hold in an environment without torch.
BASE_TESTS := tests/cli tests/reports tests/schema tests/layering

# Real ranks on a machine that others use: what fails is tried once more, and the summary lists it (decision 0007).
RERUN := --reruns 1

# Broken jobs and what must be found in them; spread over the workers, where the other tests stay together by file.
GAUNTLET := tests/test_gauntlet.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Asks for compiled blocks, and runs eager.
EXAMPLE := torchrun --nproc-per-node 2 examples/finetune.py

.PHONY: demo test test-base gauntlet bench lint format docs clean

demo: $(STACK)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/trueup run -- $(EXAMPLE)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/trueup fix --variant .trueup/demo.toml --pairs 1 -- $(EXAMPLE)

test: lint $(STACK)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n 2 $(RERUN) --dist loadfile -m "not slow" --ignore $(GAUNTLET)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n 2 $(RERUN) -m "not slow" $(GAUNTLET)

test-base: lint
	$(BIN)/python -m pytest -n 2 $(BASE_TESTS)

gauntlet: $(STACK)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n 2 $(RERUN) --junitxml=.trueup/gauntlet.xml $(GAUNTLET); \
	status=$$?; $(BIN)/python scripts/gauntlet_table.py .trueup/gauntlet.xml > docs/gauntlet.md; exit $$status
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -m slow --ignore $(GAUNTLET)

bench: $(STACK) $(RIVALS)
	PYTHONPATH="$(RIVALS)" PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m benchmarks

lint: $(BASE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(BASE)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(BASE)
	$(BIN)/python -m trueup.rules.documentation
	$(BIN)/python -m trueup.attention.documentation
	$(BIN)/python docs/record_schema.py

clean:
	rm -rf $(VENV) build dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# What the benchmarks compare with; picire 21.8 asks for pkg_resources, which newer setuptools have not.
$(RIVALS): $(BASE)
	$(BIN)/python -m pip install --quiet --target $@ picire==21.8 "setuptools<81"

# torch first and by itself: a range in another package's requirements would take another build of it.
$(STACK): $(BASE)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet $(LIBRARIES)
	touch $@
