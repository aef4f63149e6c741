"""cuDNN in C++: the version of its library; the worker is a compiled program."""

from __future__ import annotations

from ...native import program


def version() -> str:
    """The version of cuDNN."""
    return program.version("cudnn")
