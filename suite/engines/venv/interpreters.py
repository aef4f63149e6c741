"""Finds a Python for a framework: this one, or one on PATH, of pyenv or of uv.

It also lists the packages of the user's Python (`--python`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from suite.errors import EngineError
from suite.paths import user_home
from suite.worker.programs import Answer, ask

MINORS = range(20, 5, -1)
LIST_PACKAGES = """
import json, platform
from importlib.metadata import distributions
packages = {f"{each.metadata['Name']}=={each.version}" for each in distributions()}
print(json.dumps(["python==" + platform.python_version(), *sorted(packages)]))
"""
# Importing venv shows whether the interpreter can make virtual environments.
PRINT_VERSION = "import venv, platform; print(platform.python_version())"
TIMEOUT_S = 60


def find(python: str) -> tuple[Path, Version] | None:
    """The first interpreter in the range `python` that can make virtual environments."""
    required = SpecifierSet(python)
    for candidate in _candidates():
        version = probe(candidate)
        if version is not None and version in required:
            return candidate, version
    return None


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for minor in MINORS:
            yield Path(folder) / f"python3.{minor}"
    home = user_home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    data = Path(os.environ.get("XDG_DATA_HOME", home / ".local/share"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", data / "uv/python"))
    for versions in (pyenv / "versions", uv):
        if not os.access(versions, os.R_OK | os.X_OK):  # of another user: HOME=/root in a container
            continue
        for installed in sorted(versions.glob("*"), reverse=True):
            yield installed / "bin" / "python3"


def packages(interpreter: Path) -> list[str]:
    """Its version and its packages, as name==version; EngineError if it does not start."""
    answer = _ask(interpreter, LIST_PACKAGES)
    try:
        listed: list[str] = json.loads(_last_line(answer))
    except ValueError:
        raise EngineError(
            f"{interpreter} does not start as a Python: {answer.problem or 'it lists no packages'}",
            hint="--python FRAMEWORK=/path/to/python, with the framework installed",
        ) from None
    return listed


@cache
def probe(interpreter: Path) -> Version | None:
    """Its version; None if it does not start or has no venv module."""
    if not os.access(interpreter, os.X_OK):  # False also where its folder is another user's
        return None
    try:
        return Version(_last_line(_ask(interpreter, PRINT_VERSION)))
    except ValueError:
        return None


def _ask(interpreter: Path, code: str) -> Answer:
    return ask([interpreter, "-I", "-c", code], timeout_s=TIMEOUT_S)


def _last_line(answer: Answer) -> str:
    """The answer, after lines that a site's start file prints; nothing where it failed."""
    return "" if answer.problem else "".join(answer.output.strip().splitlines()[-1:]).strip()
