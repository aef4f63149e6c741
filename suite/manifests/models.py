"""Mistakes in the description of a model, found before anything starts."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from suite.models import MODELS, BrokenModel

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
    return None
