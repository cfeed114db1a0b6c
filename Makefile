# Three targets a person needs: demo (see it work), test (the gate), bench (figures).
VENV := .venv/bin
PYTEST := $(VENV)/python -m pytest

.PHONY: help demo test test-full soak fuzz bench lint schema clean

help:
	@echo "make demo       crash and strand real servers, then diagnose them (under a minute with a warm cache)"
	@echo "make test       the gate: style, types, arrows, unit to end-to-end"
	@echo "make test-full  everything, with the counts the documents quote"
	@echo "make soak       a healthy server through many sleeps, and the demo again and again"
	@echo "make fuzz       N=1000000 hostile inputs to every reader, coverage-guided (docs/fuzzing.md); before a release"
	@echo "make bench      figures as ratios in one run, written to docs/figures.md"

demo:
	@deploy/setup.sh demo
	@$(VENV)/llama-blackbox demo

lint:
	@deploy/setup.sh test
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports

test: lint
	$(PYTEST) -m "not full and not soak"

test-full: lint
	$(PYTEST) -m "not soak"

soak:
	@deploy/setup.sh test
	$(PYTEST) -m soak

fuzz:
	@deploy/setup.sh test
	PYTHONHASHSEED=0 $(VENV)/python -m tests.fuzz $(or $(N),200000) --corpus build/fuzz-corpus $(if $(SEED),--seed $(SEED))

bench:
	@deploy/setup.sh test
	$(VENV)/python -m tests.bench.run $(if $(SERVER_BIN),--server-bin $(SERVER_BIN))

schema:
	@deploy/setup.sh test
	$(VENV)/python -c "import json; from analyzers.contracts.report import json_schema; print(json.dumps(json_schema(), indent=2))" > docs/report.schema.json
	$(VENV)/python -c "import json; from analyzers.contracts.trials import json_schema; print(json.dumps(json_schema(), indent=2))" > docs/trials.schema.json
	$(VENV)/python -c "import json; from analyzers.contracts.routes import json_schema; print(json.dumps(json_schema(), indent=2))" > docs/routes.schema.json

clean:
	rm -rf .venv build *.egg-info
