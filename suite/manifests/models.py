"""Mistakes in the description of a model, found before anything starts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from suite.models import MODELS, BrokenModel
from suite.models.branches import Branches
from suite.models.layers import BatchNorm, Conv2d, Layer

NAME = re.compile(r"[a-z0-9_]+")  # of a model, as manifests accept it


@cache
def problem(name: str) -> str | None:
    """What is wrong with the model `name`; None where nothing is."""
    if not NAME.fullmatch(name):
        return "its name has other characters than a-z, 0-9 and _"
    try:
        model = MODELS[name]()
        model.shapes()
        _ = model.parameter_count, model.flops_per_sample("train")
    except BrokenModel as error:
        return error.reason
    except ValueError as error:
        return str(error)
    except Exception as error:  # of a size that is not a number, for example
        return f"{type(error).__name__}: {error}"
    if model.name != name:
        return f"its architecture is named {model.name!r}, unlike its function"
    names = Counter(layer.name for layer in model.leaves())
    twice = [each for each, count in names.items() if count > 1]
    if twice:
        return f"two layers are named {twice[0]!r}"
    dotted = [each for each in names if "." in each]
    if dotted:
        return f"the name of layer {dotted[0]!r} contains a dot"
    return next(_useless_biases(model.layers), None)


def _useless_biases(layers: tuple[Layer, ...]) -> Iterator[str]:
    """The convolutions whose bias the next layer removes: its gradient is 0, and only rounding."""
    for layer, following in pairwise(layers):
        if isinstance(layer, Conv2d) and layer.bias and isinstance(following, BatchNorm):
            yield f"layer {layer.name!r} comes before a batch norm and needs bias=False"
    for layer in layers:
        if isinstance(layer, Branches):
            for branch in layer.branches:
                yield from _useless_biases(branch)
