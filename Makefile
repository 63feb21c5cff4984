# Two commands are all that a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check

BROWSER := $(VENV)/.browser

.PHONY: demo test check bench docs viewer lock clean

# The demo needs what a user's installation has, and nothing of the tools: a tenth of the whole.
demo: $(RUN)
	PYTHONPATH=src $(BIN)/python -m beliefrag demo --yes

# Several processes to a core, in the order of tests/conftest.py. Compiled code is kept, whatever the shell says: the
# tests start hundreds of processes. Threads for arithmetic would only be in each other's way.
# What fails while they share the machine is named, and tried once more, alone; what fails then has failed.
test: export PYTHONDONTWRITEBYTECODE =
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: check $(BROWSER)
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder || $(BIN)/pytest --last-failed --last-failed-no-failures none

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.overhead_retrieval
	$(BIN)/python -m benchmarks.harness
	$(BIN)/python -m benchmarks.view_index

# The site of the documents, in site/: the reference pages are written from the code first. With --quiet, mkdocs would not
# count the warnings of broken links, and so not fail.
docs: $(READY)
	$(BIN)/python docs/make_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The viewer's pages are committed as built: node is needed only to change them.
viewer:
	cd viewer && npm ci --silent && npm run --silent build && npm test --silent

# The viewer is built and tested in a real browser where that can be had; it is tried once.
$(BROWSER): $(READY)
	.ci/get-chromium
	.ci/get-viewer-packages
	touch $(BROWSER)

# The environment is made of pinned, hashed packages in two steps: what runs, and then the extras and tools. It is made
# again when a pin changes. The files name every package, so pip resolves none: with an extra such as sqlalchemy[asyncio]
# its resolver would look at newer versions and refuse them for their missing hash.
$(RUN): requirements-run.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "BeliefRAG needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear $(VENV)
	@echo "Installing the packages that BeliefRAG runs with ($$(grep -c == requirements-run.txt))."
	$(PIP) install --progress-bar on --no-deps --require-hashes -r requirements-run.txt
	touch $(RUN)

$(READY): $(RUN) requirements.txt pyproject.toml
	@echo "Installing all extras and tools ($$(grep -c == requirements.txt) packages, about 1.2 GB)."
	$(PIP) install --progress-bar on --no-deps --require-hashes -r requirements.txt
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	touch $(READY)

lock: $(READY)
	$(BIN)/pip-compile --quiet --upgrade --strip-extras --allow-unsafe --generate-hashes \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header \
		--all-extras --output-file requirements.txt pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --generate-hashes --no-annotate \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header \
		--constraint requirements.txt --output-file requirements-run.txt pyproject.toml

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
