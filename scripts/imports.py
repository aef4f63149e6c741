"""Imports the classification models of a library, and prints a table of what became of each.

    python scripts/imports.py torchvision|timm|keras|transformers INTERPRETER [NAME...]

INTERPRETER has torch and torchvision, timm or transformers, or Keras. Each model is imported with
random weights, as `dlsuite model import` does, but with fewer random inputs. The number of
parameters is compared with the library's. docs/measurements/imports.csv has the results.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

from suite.cli.model import import_model
from suite.errors import DlsuiteError
from suite.importing import reading
from suite.manifests import model_files
from suite.worker.programs import ask

# torchvision's wheel on PyPI is for CUDA: without its own library, two operators must be declared.
OPERATORS = """\
import torch
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
TORCHVISION = f"""\
{OPERATORS}
from torchvision import models

def names():
    return models.list_models(module=models)

def parameters(name):
    return sum(each.numel() for each in __getattr__(name)().parameters())

def __getattr__(name):
    return lambda: models.get_model(name, weights=None)
"""
KERAS = """\
import math
import keras
from keras import applications

def names():
    return [name for name in dir(applications) if name[0].isupper()]

def parameters(name):
    model = getattr(applications, name)(weights=None)
    model.save(name + ".keras")
    return sum(math.prod(each.shape) for each in model.trainable_variables)
"""
# Published sizes of GPT-2 and BERT, with their vocabularies; Llama with small sizes.
TRANSFORMERS = """\
import transformers as t

GPT2 = {"attn_pdrop": 0.0}
BERT = {"attention_probs_dropout_prob": 0.0}
LLAMA = {"vocab_size": 32000, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4,
         "num_attention_heads": 8, "num_key_value_heads": 2}

def gpt2():
    return t.GPT2LMHeadModel(t.GPT2Config(**GPT2))

def bert_base():
    return t.BertForMaskedLM(t.BertConfig(**BERT))

def llama_small():
    return t.LlamaForCausalLM(t.LlamaConfig(**LLAMA))

def names():
    return ["gpt2", "bert_base", "llama_small"]

def parameters(name):
    return sum(each.numel() for each in globals()[name]().parameters())
"""
# Fifty architectures that are used much. The count of downloads was not at hand: docs/measurements/
# imports.md says how they were chosen, before any of them was tried.
TIMM_NAMES = """\
mobilenetv3_small_100 mobilenetv3_large_100 mobilenetv2_100 mobilenetv4_conv_small lcnet_050
ghostnet_100 resnet18 resnet34 resnet50 resnet101 resnet152 resnet50d wide_resnet50_2
resnext50_32x4d seresnext50_32x4d efficientnet_b0 efficientnet_b3 efficientnet_b4
tf_efficientnet_b0 tf_efficientnet_lite0 tf_efficientnetv2_s efficientnetv2_rw_s
vit_tiny_patch16_224 vit_small_patch16_224 vit_base_patch16_224 vit_base_patch32_224
vit_large_patch16_224 vit_base_patch16_clip_224 vit_base_patch16_siglip_224
vit_small_patch14_dinov2 vit_base_patch14_dinov2 vit_base_patch14_reg4_dinov2
deit_tiny_patch16_224 deit_small_patch16_224 deit_base_patch16_224 beit_base_patch16_224
eva02_base_patch14_448 swin_tiny_patch4_window7_224 swin_base_patch4_window7_224 convnext_tiny
convnext_small convnext_base convnextv2_tiny densenet121 inception_v3 inception_v4 vgg16 vgg19
hrnet_w18 mixer_b16_224
"""
TIMM = f"""\
{OPERATORS}
import timm

def names():
    return {TIMM_NAMES.split()}

def parameters(name):
    return sum(each.numel() for each in __getattr__(name)().parameters())

def __getattr__(name):
    return lambda: timm.create_model(name, pretrained=False)
"""
LIBRARIES = {
    "timm": ("pytorch", TIMM),
    "torchvision": ("pytorch", TORCHVISION),
    "keras": ("keras", KERAS),
    "transformers": ("pytorch", TRANSFORMERS),
}
LENGTH = 64  # of a text
SIZES = {  # of images; 224 for all others
    **dict.fromkeys(("inception_v3", "inception_v4"), 299),
    "efficientnetv2_rw_s": 288,
    "tf_efficientnetv2_s": 300,
    "eva02_base_patch14_448": 448,
    "vit_small_patch14_dinov2": 518,
    "vit_base_patch14_dinov2": 518,
    "vit_base_patch14_reg4_dinov2": 518,
}
OPEN = ("MobileNetV3Small", "MobileNetV3Large")  # of Keras: their files have an open input
MODULE = "models_of_the_library"
SAMPLES = 2  # with the own weights, and with changed ones
HEAD = ("model", "layers", "parameters", "error", "with changed weights", "reason or note")


def main(library: str, interpreter: Path, names: list[str]) -> None:
    reading.SAMPLES = reading.CHANGED_SAMPLES = SAMPLES
    framework, source = LIBRARIES[library]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path(f"{MODULE}.py").write_text(source)
        names = names or _ask(interpreter, "print(*m.names())").split()
        print("| " + " | ".join(HEAD) + " |\n" + "| --- " * len(HEAD) + "|", flush=True)
        of_text = library == "transformers"
        imported = sum(_row(framework, interpreter, name, of_text=of_text) for name in names)
    print(f"\n{imported} of {len(names)} are imported and equal to the file.")


def _row(framework: str, interpreter: Path, name: str, *, of_text: bool) -> bool:
    file = Path(f"of_library_{name.lower()}{model_files.SUFFIX}")
    own = int(_ask(interpreter, f"print(m.parameters({name!r}))").split()[-1])
    size = SIZES.get(name, 224)
    source, shape = f"{MODULE}.py:{name}", str(LENGTH) if of_text else f"3x{size}x{size}"
    if framework == "keras":
        source, shape = f"{name}.keras", shape if name in OPEN else ""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            import_model(source, shape or None, file, [f"{framework}={interpreter}"])
    except DlsuiteError as error:
        reason = str(error).partition("cannot be taken: ")[2] or str(error)
        print(f"| {name} | | | | | {reason.partition(';')[0]} |", flush=True)
        return False
    found = model_files.read(file)
    model, origin = found.architecture, found.origin
    assert origin is not None and origin.changed_error is not None  # of an import
    notes = "; ".join([*origin.notes, *_difference(model.parameter_count, own)])
    layers = sum(1 for _ in model.leaves())
    own = "-" if origin.error is None else f"{origin.error:.0e}"
    errors = f"{own} | {origin.changed_error:.0e}"
    print(f"| {name} | {layers} | {model.parameter_count:,} | {errors} | {notes} |", flush=True)
    model_files.weights_path(file).unlink()
    return True


def _difference(ours: int, theirs: int) -> Iterator[str]:
    if ours != theirs:
        yield f"the library's has {theirs:,} parameters"


def _ask(interpreter: Path, code: str) -> str:
    answer = ask(
        [interpreter, "-W", "ignore", "-c", f"import {MODULE} as m; {code}"], timeout_s=600
    )
    if answer.problem:
        raise SystemExit(answer.problem)
    return answer.output.strip()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).absolute(), sys.argv[3:])
