# What there is: make bench, bench-all, bench-<framework>, images, shell-<framework>, parity,
# parity-small, parity-large, selftest, report, test, lint, format, clean.
# With GPUs: make images DEVICE=cuda, make bench-all GPUS=all
PYTHON ?= python3
GPUS ?= 0
DEVICE ?= cpu
BIN := .venv/bin
READY := .venv/.ready

.PHONY: bench bench-all images parity parity-small parity-large selftest report test lint format clean

bench: $(READY)
	$(BIN)/dlsuite run quick --gpus $(GPUS)

bench-all: $(READY)
	$(BIN)/dlsuite run all --gpus $(GPUS)

bench-%: $(READY)
	$(BIN)/dlsuite run quick --framework $* --gpus $(GPUS)

images: $(READY)
	$(BIN)/dlsuite images build --device $(DEVICE)

shell-%: $(READY)
	$(BIN)/dlsuite shell $* --gpus $(GPUS)

parity: $(READY)
	$(BIN)/dlsuite parity --gpus $(GPUS)

# Of the small models all, in every variant; of the large ones one step of each usual form.
SMALL := lenet kent_small kent_medium kent_big adnn_cnn db_mlp lstm every_layer every_sequence
LARGE := alexnet_cifar10 googlenet_cifar10 resnet50_cifar10 vgg16_cifar10 vit_tiny_cifar10 \
  vit_tiny alexnet googlenet resnet50 vgg16
USUAL := pytorch tensorflow jax mxnet keras

parity-small: $(READY)
	$(BIN)/dlsuite parity --suite zoo $(SMALL:%=--model %) --gpus $(GPUS)

parity-large: $(LARGE:%=parity-large-%)

parity-large-%: $(READY)
	$(BIN)/dlsuite parity --model $* --steps 1 $(USUAL:%=--framework %) --gpus $(GPUS)

selftest: $(READY)
	$(BIN)/dlsuite selftest

report: $(READY)
	$(BIN)/dlsuite report

test: lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than Python 3.11" >&2; \
	    echo "hint: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "making the host's environment (.venv)"
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

clean:
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache
