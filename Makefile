# `make help` lists the targets. With GPUs: make images DEVICE=cuda, make bench-all GPUS=all
PYTHON ?= python3
GPUS ?= 0
DEVICE ?= cpu
BIN := .venv/bin
READY := .venv/.ready
DEV := .venv/.ready-dev
# Python compiles what it imports; to compile all takes a third of the time of an installation.
PIP := $(BIN)/python scripts/isolated_pip.py install --quiet --disable-pip-version-check --no-compile

.PHONY: help bench bench-all images parity parity-small parity-ranks parity-bfloat16 parity-large selftest report verify-cloud verify-vm \
  test dev verify lint format docs site clean large-models

help: ## list the targets
	@sed -n 's/^\([a-z0-9%-]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 24

bench: $(READY) ## set everything up, then run the suite `quick`
	$(BIN)/dlsuite run quick --gpus $(GPUS)

bench-all: $(READY) ## the suite `all`: every framework, many models; GPUS=all on a GPU host
	$(BIN)/dlsuite run all --gpus $(GPUS)

bench-%: $(READY) ## one framework, for example bench-pytorch
	$(BIN)/dlsuite run quick --framework $* --gpus $(GPUS)

images: $(READY) ## build the images; DEVICE=cuda for GPUs
	$(BIN)/dlsuite images build --device $(DEVICE)

shell-%: $(READY) ## open the container of a framework, for example shell-pytorch
	$(BIN)/dlsuite shell $* --gpus $(GPUS)

parity: $(READY) ## prove the suite `quick`
	$(BIN)/dlsuite parity --gpus $(GPUS)

SMALL := lenet kent_small kent_medium kent_big adnn_cnn db_mlp lstm gpt_tiny every_layer \
  every_sequence every_mobile every_window every_channel every_decoder every_attention \
  every_swin every_text every_padded every_response every_signal unet_small
LARGE := alexnet_cifar10 googlenet_cifar10 resnet50_cifar10 vgg16_cifar10 vit_tiny_cifar10 \
  vit_tiny alexnet googlenet resnet50 vgg16 gpt_mini
# Each kind of layer, without further networks of the same kinds.
KINDS := lenet lstm gpt_tiny every_layer every_sequence every_mobile every_window every_channel \
  every_decoder every_attention every_swin every_text every_padded every_response unet_small
# Frameworks of the published comparisons' time, with those of their models that are small.
OLD := theano caffe cntk flux
# PyTensor compiles large models for minutes; the others of these are for inference or small networks.
FRAMEWORKS := $(filter-out $(OLD) pytensor onednn cudnn onnxruntime openvino,\
  $(notdir $(basename $(wildcard manifests/frameworks/*.yaml))))

parity-small: $(READY) ## prove every small model in every variant: twenty minutes on two cores
	$(BIN)/dlsuite parity --suite zoo $(SMALL:%=--model %) --gpus $(GPUS)

parity-small-%: $(READY) ## prove every small model in the usual variant of one framework
	$(BIN)/dlsuite parity --suite zoo $(SMALL:%=--model %) --framework $* --gpus $(GPUS)

$(OLD:%=parity-small-%): parity-small-%: $(READY)
	$(BIN)/dlsuite parity --suite zoo --model lenet --model db_mlp --model every_layer --framework $*

parity-small-pytensor: $(READY)
	$(BIN)/dlsuite parity --suite zoo $(KINDS:%=--model %) --model db_mlp --framework pytensor

parity-inference: $(READY) ## prove the answers of LeNet and ViT-Tiny in inference
	$(BIN)/dlsuite parity --suite inference --model lenet --model vit_tiny_cifar10 --gpus $(GPUS)

parity-bfloat16: $(READY) ## prove every kind of layer in bf16_mixed: ten minutes on two cores
	$(BIN)/dlsuite parity --suite zoo $(KINDS:%=--model %) --precision bf16_mixed --gpus $(GPUS) \
	  --framework pytorch --framework tensorflow --framework jax --framework keras:pytorch

parity-ranks: $(READY) ## prove two models on two ranks, as processes of this machine
	$(BIN)/dlsuite parity --suite zoo --model lenet --model every_layer --devices cpu:2 \
	  --framework pytorch --framework tensorflow --framework jax --framework mxnet
	$(BIN)/dlsuite parity --suite zoo --model every_layer --devices cpu:2 --sync-batch-norm \
	  --framework pytorch --framework tensorflow --framework jax

large-models:
	@echo $(LARGE)

parity-large: $(LARGE:%=parity-large-%) ## prove one step of every large model, two of ResNet-50

parity-large-%: $(READY) ## prove one step of one large model, two of ResNet-50
	$(BIN)/dlsuite parity --model $* --steps $(if $(findstring resnet50,$*),2,1) $(FRAMEWORKS:%=--framework %) --gpus $(GPUS)

selftest: $(READY) ## insert faults into copies of the worker and of the import; each must be found
	$(BIN)/dlsuite selftest

report: $(READY) ## show the newest run
	$(BIN)/dlsuite report

dev: $(DEV) ## add the tools of developers to .venv

test: lint ## lint, types, unit tests, and a short trial of each framework
	$(BIN)/python -m pytest -m "not verify"

verify: $(DEV) ## the long tests, the self-test and all proofs: more than an hour on two cores
	$(BIN)/python -m pytest -m verify
	$(MAKE) selftest parity-small parity-inference parity-ranks parity-bfloat16 parity-large

verify-cloud: $(DEV) ## all tests with SkyPilot in DLSUITE_SKYPILOT, an environment of its own: half an hour
	DLSUITE_LONG_CLOUD_TESTS=1 $(BIN)/python -m pytest -m verify tests/cloud -n0

verify-vm: ## run scripts/cloud/cloud-init.yaml in a virtual machine, with QEMU; needs root
	scripts/cloud/verify-vm

lint: $(DEV) ## format, lint, types, and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

format: $(DEV) ## format the source
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

site: $(DEV) ## the documentation as a site with an offline search, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs: $(DEV) ## write the generated files: docs/reference/*.schema.json, docs/reference/frameworks.md, docs/reference/columns.md, manifests/ladder.json
	$(BIN)/python -m suite.protocol.documents
	$(BIN)/python scripts/docs_tables.py
	$(BIN)/python scripts/ladder/rungs.py

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than Python 3.11" >&2; \
	    echo "hint: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "making the host's environment (.venv)"
	@rm -rf .venv
	@env -u PYTHONHOME -u PYTHONPATH $(PYTHON) -m venv .venv
	@$(PIP) --editable .
	@touch $(READY)

$(DEV): $(READY)
	@echo "adding the tools of developers"
	@$(PIP) --editable '.[dev]'
	@touch $(DEV)

clean: ## remove the host's environment and caches of tools
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
