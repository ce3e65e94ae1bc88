# `make demo` and `make check` set up all they need in .venv; PYTHON chooses the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/demo
SECONDS ?= 3600

.PHONY: demo check integrations bench fuzz format clean

$(BIN)/kvzip: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(BIN)/kvzip
	rm -rf $(DEMO) && mkdir -p $(DEMO)
	cp fixtures/real/prose_bf16.safetensors $(DEMO)/dump.safetensors
	$(BIN)/kvzip compress -v $(DEMO)/dump.safetensors
	$(BIN)/kvzip test -v $(DEMO)/dump.safetensors.kvz
	$(BIN)/kvzip decompress -c $(DEMO)/dump.safetensors.kvz | cmp - $(DEMO)/dump.safetensors
	$(BIN)/kvzip stats $(DEMO)/dump.safetensors.kvz
	@echo "The dump came back byte for byte."

check: $(BIN)/kvzip
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --durations=10

# Extras and servers that are too much for every run: zarr and dask arrays, clusters, a real S3 server on loopback.
integrations: $(BIN)/kvzip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,dask,numcodecs,remote]' \
		aiohttp dask 'moto[server]' s3fs
	$(BIN)/python -m pytest tests/files/test_remote.py tests/fleet tests/integrations

bench: $(BIN)/kvzip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python benchmarks/run.py --json docs/benchmarks.json
	$(BIN)/python benchmarks/scaling.py --json docs/scaling.json
	$(BIN)/python benchmarks/publish.py

fuzz: $(BIN)/kvzip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python tests/fuzzing/run.py --seconds $(SECONDS)

format: $(BIN)/kvzip
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .fuzz build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
