"""The places in which a kind of layer is named: what somebody who adds one has to write.

CONTRIBUTING.md lists the same places.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from suite.models.layer import Layer
from suite.paths import REPOSITORY
from suite.protocol.schema import _layer_classes

SUITE = REPOSITORY / "suite"
FRAMEWORKS = SUITE / "worker" / "frameworks"
KINDS = sorted(each.kind for each in _layer_classes())
# Files of a framework beside its layers.py that name a kind, and the kinds that need it.
BESIDE = {
    # Products are rounded there, so parameters that take no part in one are listed.
    "jax/rounding.py": {
        *("batch_norm", "class_token", "group_norm", "layer_norm", "position_embedding"),
        *("rms_norm", "scale"),
    },
    "jax/inference.py": {"batch_norm", "conv2d"},  # joined for inference
    "mxnet/attention.py": {"flatten"},  # an option of Gluon's Dense
    "mxnet/session.py": {"add"},  # how Gluon keeps gradients
    "caffe/norms.py": {"batch_norm"},
    "caffe/session.py": {"batch_norm"},
    "paddle/inference.py": {"window_attention"},  # an option of its engine
    "pytorch/device.py": {"conv2d", "lstm"},  # settings of cuDNN
}


CODE = re.compile(r"`([a-z0-9_]+)`")


def files_that_name(kind: str, folder: Path) -> Counter[str]:
    """How often each Python file of a folder has the kind as a text."""
    found = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8").count(f'"{kind}"')
        for path in folder.rglob("*.py")
    }
    return Counter({name: count for name, count in found.items() if count})


def first_cells(page: str) -> set[str]:
    """The names in the first column of the tables of a page."""
    lines = (REPOSITORY / "docs" / "reference" / page).read_text(encoding="utf-8").splitlines()
    return {
        name for line in lines if line.startswith("| ") for name in CODE.findall(line.split("|")[1])
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_framework_names_a_kind_in_its_layers_alone(kind: str) -> None:
    named = {name for name in files_that_name(kind, FRAMEWORKS) if not name.endswith("/layers.py")}
    assert named == {name for name, kinds in BESIDE.items() if kind in kinds}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_one_class_and_one_place_in_both_reference_pages(kind: str) -> None:
    classes = [each for each in _layer_classes() if each.kind == kind]
    assert len(classes) == 1 and issubclass(classes[0], Layer)
    assert kind in first_cells("models.md") and kind in first_cells("protocol.md")


def test_an_activation_needs_one_place_in_each_framework() -> None:
    """The least that a kind can need: no parameters, no shapes."""
    counts = files_that_name("hard_swish", FRAMEWORKS)
    assert len(counts) >= 8 and set(counts.values()) == {1}
