"""Where output goes: a terminal and its width, a pipe, or the log of CI; with colors or without."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, Any

from rich.console import Console, ConsoleDimensions

PIPED_WIDTH = 120  # characters, where the output goes to no terminal
UNKNOWN_WIDTH = 80  # of a terminal that does not say its width
MIN_WIDTH = 40  # a narrower terminal folds the lines itself
HELP_WIDTH = 70  # of help in boxes
MAX_DIGITS = 5  # of COLUMNS
DUMB = ("", "dumb", "unknown")  # values of TERM
OFF = ("", "0", "false", "no", "off")  # values of FORCE_COLOR and CI
# Sequences that move the cursor, erase or color, titles of windows, and single control characters.
CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


class _Console(Console):
    """A console of the stream's present width, for text of workers and other programs."""

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        return ConsoleDimensions(width_of(self.file), super().size.height)

    def print(self, *objects: Any, **options: Any) -> None:
        cleaned = (plain(each) if isinstance(each, str) else each for each in objects)
        super().print(*cleaned, **options)


def console(*, stderr: bool = False) -> Console:
    """A console for standard output or error; `is_interactive` says whether lines may be replaced.

    It takes no markup: messages of workers and libraries have brackets of their own.
    """
    stream = sys.stderr if stderr else sys.stdout
    return _Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        force_terminal=has_colors(stream),
        force_interactive=is_live(stream),
    )


def width_of(stream: IO[str]) -> int:
    """The width in characters: COLUMNS, that of the terminal, or PIPED_WIDTH."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and len(columns) <= MAX_DIGITS and int(columns):
        return max(MIN_WIDTH, int(columns))
    if not stream.isatty():
        return PIPED_WIDTH
    try:
        return max(MIN_WIDTH, os.get_terminal_size(stream.fileno()).columns or UNKNOWN_WIDTH)
    except (OSError, ValueError):
        return UNKNOWN_WIDTH


def has_colors(stream: IO[str]) -> bool:
    """Whether text may be colored or bold: on a terminal, or where FORCE_COLOR asks for it."""
    forced = os.environ.get("FORCE_COLOR", "").lower() not in OFF
    return _is_terminal(stream) or (forced and not os.environ.get("NO_COLOR"))


def is_live(stream: IO[str]) -> bool:
    """Whether lines may be replaced: on a terminal that is not the log of CI."""
    return _is_terminal(stream) and os.environ.get("CI", "").lower() in OFF


def plain(text: str) -> str:
    """The text without control sequences, such as those of programs that color their messages."""
    return CONTROL.sub("", text)


def style_help() -> None:
    """Let Typer's help and errors follow the same rules; it has its own for GitHub's actions."""
    for name in ("TERMINAL_WIDTH", "COLUMNS", "LINES"):
        if not os.environ.get(name, "0").isdecimal():
            del os.environ[name]  # Typer, or Rich for digits such as \u00b2, fails
    from typer import core, rich_utils

    streams = (sys.stdout, sys.stderr)
    # Its boxes cut the names of options where there is little room; plain help folds them.
    core.HAS_RICH = core.HAS_RICH and min(map(width_of, streams)) >= HELP_WIDTH
    rich_utils.FORCE_TERMINAL = all(map(has_colors, streams))
    rich_utils.MAX_WIDTH = min(map(width_of, streams))


def _is_terminal(stream: IO[str]) -> bool:
    return stream.isatty() and os.environ.get("TERM", "").lower() not in DUMB
