# Two commands are all that a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

BROWSER := $(VENV)/.browser

.PHONY: demo test check bench docs viewer lock clean

demo: $(READY)
	$(BIN)/beliefrag demo --yes

# Files of tests go to as many workers as there are processors: a file's tests stay together, in their order.
test: check $(BROWSER)
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile

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

# The site of the documents, in site/: the reference pages are written from the code first.
docs: $(READY)
	$(BIN)/python docs/make_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The viewer's pages are committed as built: node is needed only to change them.
viewer:
	cd viewer && npm ci --silent && npm run --silent build && npm test --silent

# The viewer is built and tested in a real browser where that can be had; it is tried once.
$(BROWSER): $(READY)
	.ci/get-chromium
	.ci/get-viewer-packages
	touch $(BROWSER)

# The environment is made of pinned, hashed packages; it is made again when a pin changes.
$(READY): requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "BeliefRAG needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

lock: $(READY)
	$(BIN)/pip-compile --quiet --upgrade --strip-extras --allow-unsafe --generate-hashes \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header \
		--all-extras --output-file requirements.txt pyproject.toml

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
