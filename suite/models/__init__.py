"""The models: a module for each family of architectures, found by its name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.models.architecture import Architecture


def _found() -> Iterator[Callable[[], Architecture]]:
    """The public functions without arguments that return an Architecture, module by module."""
    for module in pkgutil.iter_modules(__path__):
        imported = importlib.import_module(f"{__name__}.{module.name}")
        for name, value in vars(imported).items():
            if (
                inspect.isfunction(value)
                and value.__module__ == imported.__name__
                and not name.startswith("_")
                and _name(value.__annotations__.get("return")) == "Architecture"
                and not inspect.signature(value).parameters
            ):
                yield value


def _name(annotation: object) -> object:
    """The name of an annotation, which may be postponed."""
    return getattr(annotation, "__name__", annotation)


MODELS: dict[str, Callable[[], Architecture]] = {make.__name__: make for make in _found()}


def sequence_length(name: str) -> int | None:
    """The tokens of a sample; None where the model takes no tokens, or is unknown."""
    model = MODELS[name]() if name in MODELS else None
    return model.input_shape[0] if model and model.takes_tokens else None
