"""The models: a module for each family of architectures, found by its name.

A module that cannot be imported, or a function that fails, costs its own models only: they raise
BrokenModel when they are called.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from suite.errors import ManifestError

if TYPE_CHECKING:
    from suite.models.architecture import Architecture

Make = Callable[[], "Architecture"]
# The functions of models in the text of a module that cannot be imported.
MAKES = re.compile(r"^def ([a-zA-Z]\w*)\(\s*\)\s*->\s*[\"']?(?:\w+\.)*Architecture\b", re.MULTILINE)


class BrokenModel(ManifestError):
    """A model whose file cannot be imported, or whose function fails; `reason` names the line."""

    def __init__(self, name: str, path: Path, reason: str) -> None:
        super().__init__(f"model {name}: {reason}", hint=f"correct {path}")
        self.reason = reason


def _found(folders: list[str], package: str) -> Iterator[tuple[str, Make]]:
    """The public functions without arguments that return an Architecture, module by module."""
    for module in pkgutil.iter_modules(folders):
        path = Path(folders[0]) / f"{module.name}.py"
        try:
            imported = importlib.import_module(f"{package}.{module.name}")
        except (Exception, SystemExit) as error:
            yield from _unusable(path, f"{package}.{module.name}", reason_of(error, path))
            continue
        yield from makes_of(imported, path)


def makes_of(module: ModuleType, path: Path) -> Iterator[tuple[str, Make]]:
    """The models of an imported module, whose file is `path`."""
    for name, value in vars(module).items():
        if (
            inspect.isfunction(value)
            and value.__module__ == module.__name__
            and not name.startswith("_")
            and _name(value.__annotations__.get("return")) == "Architecture"
            and not inspect.signature(value).parameters
        ):
            yield value.__name__, _checked(value, path)


def _unusable(path: Path, module: str, reason: str) -> Iterator[tuple[str, Make]]:
    """The models in the text of a file that cannot be imported; where none is found, its name."""
    try:
        names = MAKES.findall(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        names = []
    for name in names or [path.stem]:

        def fail(name: str = name) -> Architecture:
            raise BrokenModel(name, path, reason)

        fail.__module__ = module
        yield name, fail


def _checked(make: Make, path: Path) -> Make:
    """The function of a model; whatever it raises becomes a BrokenModel."""

    @wraps(make)
    def checked() -> Architecture:
        try:
            made = make()
            if type(made).__name__ != "Architecture":
                raise TypeError(f"it returns {type(made).__name__}, not Architecture")
            return made
        except (Exception, SystemExit) as error:
            raise BrokenModel(make.__name__, path, reason_of(error, path)) from error

    return checked


def reason_of(error: BaseException, path: Path) -> str:
    """What failed, with the line of `path` where it did, if it is known."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path.name}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{path.name}:{lines[-1]}: {text}" if lines else text


def _name(annotation: object) -> object:
    """The name of an annotation, which may be postponed."""
    return getattr(annotation, "__name__", annotation)


MODELS: dict[str, Make] = dict(_found(__path__, __name__))


def predicted_tokens(name: str) -> int:
    """The tokens of a sample that a model predicts; 1 where it predicts none, or is unknown."""
    length = sequence_length(name)
    return 1 if length is None or not MODELS[name]().positions else length


def sequence_length(name: str) -> int | None:
    """The tokens of a sample; None where the model takes no tokens, or is unknown or broken."""
    try:
        model = MODELS[name]()
    except (BrokenModel, KeyError):
        return None
    return model.input_shape[0] if model.takes_tokens else None
