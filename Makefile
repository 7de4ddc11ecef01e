# Every target does its own set-up. Python other than the first 3.11 or 3.12 found: PYTHON=/path/to/python make venv
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PYTHONUTF8 := 1
INSTALLED := .venv/.installed
BIN := .venv/bin
CONFIG ?= configs/nightly/quickstart.yaml

.PHONY: help venv nightly test lint slow-test lock base clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /  /'

venv: $(INSTALLED)  ## .venv with all packages (more than 3 GB, 4 to 8 minutes)

$(INSTALLED): pyproject.toml constraints.txt tools/setup_venv.sh tools/check_imports.py
	@bash tools/setup_venv.sh

nightly: $(INSTALLED)  ## one night, end to end; LOGS=nuscenes:DIR, DATE=YYYY-MM-DD, CONFIG=FILE
	@$(BIN)/drive nightly --config "$(CONFIG)" $(if $(LOGS),--logs "$(LOGS)") $(if $(DATE),--date "$(DATE)") \
		|| { code=$$?; [ $$code -eq 20 ] || [ $$code -eq 21 ] || exit $$code; }  # refused; nothing to do

test: lint  ## ruff, mypy, import rules, and every test that is not slow (tests alone: 19 minutes on 2 cores beside other work)
	@$(BIN)/python -m pytest -m "not slow and not gpu"

lint: $(INSTALLED)  ## ruff, mypy, import rules
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

slow-test: $(INSTALLED)  ## the long tests: whole nights, resume after kill -9
	@$(BIN)/python -m pytest -m "slow and not gpu" --timeout 1800

lock: $(INSTALLED)  ## write the versions installed now to constraints.txt
	@$(BIN)/python -m pip freeze --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//' > constraints.txt

base: $(INSTALLED)  ## record the expert on 180 routes and train the shipped base model from it (an hour and a half on 2 cores)
	@$(BIN)/drive sim --suite collect --policy expert --perturb 0.07 --workers 2 --out runs/base/collect
	@$(BIN)/drive train --config configs/train/base.yaml --data runs/base/collect/logs --out runs/base/train
	@$(BIN)/drive train --config configs/train/critic.yaml --data runs/base/collect/logs --out runs/base/critic --init-from runs/base/train/model
	@echo "model: runs/base/critic/model; copy its files over drive/model/base to ship it"

clean:  ## remove the environment and tool caches; runs/ stays
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
