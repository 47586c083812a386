# The two commands of the README, and what they stand on. Each works alone on a fresh machine
# that has python3, git, make, g++ and perl.

NF := .venv/bin/nf

.DEFAULT_GOAL := help
.PHONY: help setup torch cluster docs release screenshot test regress nightly doctor lint check clean

help:
	@echo "make regress   replay the shipped capture on every simulator, then the smoke suite"
	@echo "make test      every check of the project, as CI runs it"
	@echo "make nightly   what is long: ten seeds with coverage, all mutants, the link's faults, bad input;"
	@echo "               make nightly ONLY='figures fuzz': the parts that begin with these words"
	@echo "make setup     .venv with pinned tools; Icarus by apt where root allows"
	@echo "make torch     PyTorch (CPU) into .venv too, for nf capture and its tests"
	@echo "make cluster   Dask into .venv too, for nf run --cluster and its tests"
	@echo "make docs      the documentation site, build/docs/docs/index.html; a warning is an error"
	@echo "make release VERSION=0.2.0  the commit and the tag of a release; pushes nothing"
	@echo "make screenshot  docs/report.png, from the report of the last make regress (needs Chromium)"
	@echo "make doctor    what is installed, what is missing"
	@echo "make lint check clean"

setup:
	@scripts/setup.sh

torch cluster:
	@scripts/setup.sh --$@

test:
	@scripts/setup.sh --torch --cluster
	@$(NF) test

regress: setup
	@$(NF) regress

nightly:
	@scripts/setup.sh --torch --frameworks --cluster --docs --release
	@$(NF) nightly $(ONLY:%=--only %)

docs:
	@scripts/setup.sh --docs
	@.venv/bin/python -m sphinx -q -W --keep-going -c docs -b html . build/docs
	@echo "site: build/docs/docs/index.html"

release: setup
	@.venv/bin/python -m scripts.checks.release $(VERSION)

# Chromium's sandbox refuses root.
screenshot:
	@chromium --headless --hide-scrollbars $$(test $$(id -u) != 0 || echo --no-sandbox) \
	  --window-size=1000,560 --screenshot=docs/report.png build/report/index.html

doctor lint check: setup
	@$(NF) $@

clean:
	@rm -rf build
