# Two commands set everything up: `make demo` and `make test`. Both make .venv if it is missing; tests add the extra `test`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
BASE := .venv/.installed
TESTS := .venv/.installed-test
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.NOTPARALLEL:
.PHONY: demo published test test-long test-slow chaos versions mutants lint docs bench bench-full bench-gpu clean

demo: $(BASE)  ## a sweep on the built-in data, and its report
	$(BIN)/python -m harness -m model=base,albert,windowed
	@echo
	@echo "The report:       multirun/reports/default/report.html (and report.md, summary.csv)"
	@echo "Look at the runs: $(BIN)/python -m harness ui"

published: $(BASE)  ## the encoder all-MiniLM-L6-v2, where the hub cannot be reached (ARGS=mpnet: all-mpnet-base-v2); model.init_from names it as on the hub
	$(BIN)/python .ci/published $(ARGS)

# A file is run by one process, which makes its fixtures once; in the given order, for the last files are the shortest.
test: $(TESTS)  ## the suite, but for what is marked long or slow
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-long: $(TESTS)  ## what takes some seconds each; CI runs it after `test`
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m 'long and not slow'

test-slow: $(TESTS)  ## what takes a minute or more, but the random kills
	$(BIN)/python -m pytest --timeout=0 -m slow --ignore=tests/chaos --ignore=plugins/tests/test_killed_commands.py

chaos: $(TESTS)  ## a sweep that is killed at random until it is complete; CHAOS_SEED=N repeats the kills
	$(BIN)/python -m pytest --timeout=0 -s -m slow tests/chaos plugins/tests/test_killed_commands.py

versions: $(BASE)  ## locks the code that shapes results, after a change that keeps them or a raised version
	$(BIN)/python tests/lock_versions.py

mutants: $(TESTS)  ## small wrong changes that the tests must notice; ARGS='--only models/' or ARGS=--check-stale
	$(BIN)/python tests/mutants/run.py $(ARGS)

lint: $(TESTS)  ## format, style, types, and the import contracts of pyproject.toml
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

docs: $(TESTS)  ## README and docs/ as a site in build/site, with the API from docstrings; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(TESTS)  ## speed against peers, side by side, in 10 to 25 minutes; needs ../shared/data; ARGS='--only finetune'
	$(BIN)/python tests/benchmarks/run.py $(ARGS)

bench-full: $(TESTS)  ## the same with more rounds and sizes
	$(BIN)/python tests/benchmarks/run.py --full $(ARGS)

bench-gpu: $(TESTS)  ## on one GPU, in at most 8 minutes; ARGS='--device cpu --tiny' checks that it runs
	$(BIN)/python tests/benchmarks/gpu.py $(ARGS)

$(BASE): EXTRA = run
$(TESTS): EXTRA = test
$(BASE) $(TESTS): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python .ci/install -c constraints.txt -e '.[$(EXTRA)]'
	@touch $(BASE) $@

clean:
	rm -rf .venv build *.egg-info
