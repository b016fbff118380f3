# Everything a newcomer needs: `make demo` and `make test`.
# PYTHON picks the interpreter of a new environment: make PYTHON=python3.12 test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Or each start would, where Python may not write. What does not compile is for other versions of Python.
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x 'site-packages/.*/tests/' $(VENV)/lib src/whence || true
HOME_OF_DEMO := $(CURDIR)/.whence/demo

.PHONY: help setup dev demo test other-cpu frameworks browser screenshots proofs check format docs bench bench-quality bench-answers bench-writer mutants fuzz gate integration-retrieval lock clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-24s %s\n", $$1, $$2}'

$(VENV)/.runtime: requirements.lock requirements-uv.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) uninstall --quiet --yes setuptools 2>/dev/null # Python 3.11 puts 10 MB of it where nothing needs it
	$(BIN)/python tools/install.py requirements.lock --editable .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	$(BIN)/python tools/install.py requirements-dev.lock
	@$(COMPILE)
	@touch $@

setup: $(VENV)/.runtime ## Make .venv, install Whence and the local models
	@# The download of the models waits for the network while the other works.
	@$(COMPILE) & $(BIN)/whence models install --quiet; code=$$?; wait; exit $$code

dev: setup $(VENV)/.dev ## The same, and the tools of development

demo: setup ## Index the example handbook and ask it four questions
	@$(BIN)/whence --home $(HOME_OF_DEMO) demo

test: dev ## Run all tests, on as many cores as there are, up to four
	@# Each process would compile all tests again where Python may not keep them: 9 s each.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadgroup $(TESTS)

other-cpu: dev ## Run all tests as on an older x86-64 processor: with AVX2, without AVX-512 and VNNI; needs cc
	@mkdir -p log && cc -shared -fPIC -O1 -o log/older_cpu.so tools/older_cpu.c
	LD_PRELOAD=$(CURDIR)/log/older_cpu.so PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadgroup $(TESTS)

frameworks: dev ## Try the retrievers for LangChain, LlamaIndex and Haystack, and the conformance suite of MCP, in environments of their own
	$(BIN)/python -m pytest -m frameworks tests/frameworks

browser: dev ## Try the page in a real browser; needs chromium and chromedriver, and npm for rules of accessibility
	$(BIN)/python -m pytest -m browser -n 0 tests/browser $(TESTS)

screenshots: dev ## Draw each view of the page, light and dark, 1,280 and 390 wide, into docs/pictures; needs chromium
	$(BIN)/python tools/screenshots.py

PROOF_SEARCHES ?= 100000
proofs: dev ## The long proofs: 100,000 random searches compared with each document's tags
	WHENCE_ACCESS_CHECKS=$(PROOF_SEARCHES) $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal \
		tests/integration/test_access_proof.py

check: dev ## Format, lint, types, import rules, size and structure
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/house.py

format: dev ## Put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: dev ## Measure the claims of the README; prints ratios
	$(BIN)/python -m benchmarks

QUALITY_DATA ?= ../shared/data
bench-quality: dev ## Measure search on open test collections; writes docs/, fails when a promise is broken
	$(BIN)/python -m benchmarks.quality $(QUALITY_DATA) --write $(QUALITY)

bench-answers: dev ## Ask our questions about documentation from package indexes; prints what answers hold
	$(BIN)/python -m benchmarks.answers $(ANSWERS)

bench-writer: dev ## Ask such questions with real language models (1.6 GB) too; takes hours: WRITER="--questions 20"
	$(BIN)/python -m benchmarks.writer $(WRITER)

MUTANTS ?=
mutants: dev ## Change the code in small ways and list what no test notices; all takes hours: MUTANTS="--sample 100"
	$(BIN)/python tools/mutants.py $(MUTANTS)

FUZZ_SECONDS ?= 600
fuzz: dev ## Run every decoder on mutated inputs for ten minutes: FUZZ_SECONDS=60, FUZZ="--target html"
	$(BIN)/python tools/fuzz.py --seconds $(FUZZ_SECONDS) $(FUZZ)

gate: setup ## Refuse what makes retrieval of the example handbook worse
	@tools/gate.sh

integration-retrieval: dev ## Check code retrieval on bundles; writes log/integration/retrival
	$(BIN)/python -m pytest tests/integration/retrival

docs: dev ## Renew what is written from the code: reference pages and manifests
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/manifests.py

lock: $(VENV)/.runtime ## Pin all dependencies again, with hashes and without addresses
	PATH="$(CURDIR)/$(VENV)/uv/bin:$$PATH" $(BIN)/python tools/lock.py

clean: ## Remove the environment, caches and the demo's data
	rm -rf $(VENV) .whence .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache log mutants
