# Developer targets. `make` alone lists them. They need Python 3.11 to 3.14 and nothing else: each target first installs
# what it uses into .venv, with the versions of constraints.txt.

PYTHON ?=
DEMO_ARGS ?=
PYTEST_ARGS ?= -n auto --maxprocesses 4 --dist worksteal
COVERAGE_ARGS := --cov=laplacianshot --cov-report=term:skip-covered

# Bytecode is kept, also where the environment says otherwise: each process would compile all that it imports anew.
export PYTHONDONTWRITEBYTECODE :=

# mkdocs-material would advertise its successor at each build.
export NO_MKDOCS_2_WARNING := 1

VENV := .venv
PY := $(VENV)/bin/python
PIP_INSTALL := -m pip install --quiet --no-compile --disable-pip-version-check --no-input -c constraints.txt

APT_INSTALL = timeout 600 $$root env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends

# Pythons for which all pinned packages have wheels.
OLDEST := 11
NEWEST := 14
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test test-all test-oldest lint javascript types pytest coverage chromium format docs docs-serve bench dev constraints lock clean distclean

help: ## list these targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-cli ## label scikit-learn's digits from one example per class
	@echo "Labeling scikit-learn's digits with eight methods, fifty times: under a minute on an idle machine"
	@$(VENV)/bin/laplacianshot demo $(DEMO_ARGS)

test: lint types pytest ## lint, types and the tests that are not marked slow; run it before every change is merged

test-all: lint types chromium ## the same with the slow tests: kills at random moments, a Ray cluster, long browser sessions
	@$(PY) -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-test javascript ## ruff: rules and format; imports between the rooms; the pages' JavaScript
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(VENV)/bin/lint-imports >/dev/null || $(VENV)/bin/lint-imports

javascript: ## types and rules of the pages' JavaScript; skipped where npm is missing
	@if ! command -v npm >/dev/null; then echo "npm is not installed: the check of the JavaScript is skipped"; exit 0; fi; \
	if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then npm ci --silent --no-audit --no-fund && touch node_modules/.package-lock.json; fi \
	&& npm run --silent check

types: $(VENV)/.installed-test ## mypy --strict
	@$(PY) -m mypy $(wildcard src benchmarks)

pytest: $(VENV)/.installed-test chromium ## only the tests (PYTEST_ARGS="-x tests/inference" runs a part)
	@$(PY) -m pytest -m "not slow" $(PYTEST_ARGS)

coverage: $(VENV)/.installed-test chromium ## the tests again, and the share of lines and branches that they reach
	@$(PY) -m pytest -m "not slow" $(PYTEST_ARGS) $(COVERAGE_ARGS)

# The lower bounds of the core, from pyproject.toml, in an environment of their own.
test-oldest: ## the tests of the core with the oldest versions of its dependencies
	@set -e; $(find_python); \
	rm -rf .venv-oldest; \
	"$$python" -m venv .venv-oldest; \
	oldest=$$("$$python" -c "import tomllib; print(*(d.replace('>=', '==') for d in tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']))"); \
	echo "Installing $$oldest"; \
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check $$oldest pandas pytest pytest-timeout hypothesis hatchling editables; \
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .; \
	.venv-oldest/bin/python -m pytest -m "not slow" tests/inference tests/engine tests/neighbors tests/test_estimator.py

# Needed by the tests in a browser alone. Without it they are skipped, or fail where CI=true.
chromium: ## install chromium through apt, where it is absent and that is possible
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
	  command -v apt-get >/dev/null && if [ "$$(id -u)" = 0 ]; then root=; else root="sudo -n"; fi && $$root true 2>/dev/null \
	  && echo "Installing chromium, for the tests of the studio's page" \
	  && { $(APT_INSTALL) chromium || { timeout 120 $$root apt-get update -qq && $(APT_INSTALL) chromium; }; } </dev/null >/dev/null 2>&1; \
	} || echo "chromium is absent and cannot be installed here: tests in a browser will be skipped, or fail where CI=true"

format: $(VENV)/.installed-test ## fix what ruff can fix, and format the code
	@$(PY) -m ruff check --fix
	@$(PY) -m ruff format

docs: $(VENV)/.installed-docs ## build the documentation into site/
	@$(PY) -m mkdocs build --strict
	@echo "site/index.html is ready"

docs-serve: $(VENV)/.installed-docs ## show the documentation at http://127.0.0.1:8000
	@$(PY) -m mkdocs serve --dev-addr 127.0.0.1:8000

bench: $(VENV)/.installed-test ## time and memory of one large task, against its peers
	@$(PY) benchmarks/single_task.py

dev: $(VENV)/.installed-dev ## install everything a developer needs, and the git hooks
	@$(PY) -m pre_commit install

clean: ## remove what the other targets made, except .venv
	@rm -rf build dist site laplacianshot-demo* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## clean, and remove .venv too
	@rm -rf $(VENV) .venv-oldest

# --- environment ---------------------------------------------------------------------------------------------------------

# $$python becomes the first candidate that runs (a shim may exist and not run), has a supported version and can make
# environments. The interpreter behind an active virtual environment is meant, never that environment itself.
define find_python
python=; why="no Python 3.$(OLDEST) to 3.$(NEWEST) found"; \
for candidate in $(if $(PYTHON),"$(PYTHON)",$(CANDIDATES)); do \
  base=$$("$$candidate" -c 'import sys; (3, $(OLDEST)) <= sys.version_info[:2] <= (3, $(NEWEST)) or sys.exit(1); print(sys._base_executable)' 2>/dev/null) || continue; \
  if "$$base" -c 'import ensurepip, venv' 2>/dev/null; then python=$$base; break; fi; \
  why="$$candidate cannot make virtual environments (on Debian and Ubuntu: apt install python3-venv)"; \
done; \
if [ -z "$$python" ]; then echo "error: $$why$(if $(PYTHON), under PYTHON=$(PYTHON)); another one can be named with make PYTHON=/path/to/python" >&2; exit 1; fi
endef

# .made holds the folder it was made in. The environment is made anew when it is missing, does not run, or was moved
# or copied here from elsewhere; one that came without .made is kept if it is sound.
ifneq ($(shell cat $(VENV)/.made 2>/dev/null && $(PY) -c '' 2>&1),$(CURDIR))
.PHONY: $(VENV)/.made
endif

$(VENV)/.made:
	@set -e; \
	if [ -e $@ ] || ! $(PY) -c 'import sys; sys.exit(sys.version_info < (3, $(OLDEST)))' 2>/dev/null \
	  || ! $(PY) -m pip install --help >/dev/null 2>&1; then \
	  $(find_python); \
	  echo "Making $(VENV) with $$("$$python" --version)"; \
	  rm -rf $(VENV); \
	  "$$python" -m venv $(VENV); \
	fi; \
	$(PY) $(PIP_INSTALL) pip hatchling editables; \
	pwd -P > $@

# One stamp for each extra, written only when its installation has succeeded.
$(VENV)/.installed-%: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Installing laplacianshot[$*] into $(VENV) (some minutes the first time)"
	@$(PY) $(PIP_INSTALL) --no-build-isolation --editable '.[$*]'
	@touch $@

constraints: ## pin the newest versions of everything in constraints.txt (with the oldest Python)
	@set -e; $(find_python); \
	rm -rf .venv-pin; \
	"$$python" -m venv .venv-pin; \
	.venv-pin/bin/python -m pip install --quiet --upgrade pip setuptools hatchling editables; \
	.venv-pin/bin/python -m pip install --quiet --no-build-isolation --editable '.[dev]'; \
	.venv-pin/bin/python -m pip freeze --all --exclude-editable > .venv-pin/frozen.txt; \
	{ sed -n '/^#/p' constraints.txt; \
	  { sed -e 's/^\(torch==[^+]*\)+.*/\1/' -e '/^nvidia-/d; /^cuda-/d; /^triton==/d' .venv-pin/frozen.txt; \
	    grep -E '^(timm|torchvision)==' constraints.txt; } | sort -fu; \
	} > .venv-pin/constraints.txt; \
	cp .venv-pin/constraints.txt constraints.txt; \
	rm -rf .venv-pin

lock: ## write the digests of the default install into requirements.lock (with uv)
	@set -e; $(find_python); \
	rm -rf .venv-lock; \
	"$$python" -m venv .venv-lock; \
	.venv-lock/bin/python -m pip install --quiet uv; \
	.venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  -c constraints.txt --extra cli --extra label --extra studio pyproject.toml -o .venv-lock/requirements.lock; \
	{ sed -n '/^#/p' requirements.lock; sed '/^#/d' .venv-lock/requirements.lock; } > .venv-lock/whole; \
	cp .venv-lock/whole requirements.lock; \
	rm -rf .venv-lock
