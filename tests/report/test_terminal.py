"""Terminals, real pseudo-terminals of several widths, and pipes."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator

import pytest

from suite.report import table, terminal

ROWS = [{f"column {number}": "12345678" for number in range(9)}]


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Callable[[], str]]]:
    """Makes standard output a terminal of a width; gives what was written to it."""
    for name in ("COLUMNS", "CI", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    leaders, streams = [], []

    def make(width: int) -> Callable[[], str]:
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        stream = os.fdopen(follower, "w")
        leaders.append(leader)
        streams.append(stream)
        monkeypatch.setattr(sys, "stdout", stream)

        def read() -> str:
            stream.flush()
            return os.read(leader, 65536).decode()

        return read

    yield make
    for stream in streams:
        stream.close()
    for leader in leaders:
        os.close(leader)


@pytest.mark.parametrize(("width", "expected"), [(40, 40), (80, 80), (0, 80), (12, 40)])
def test_the_width_is_that_of_the_terminal(output: Callable, width: int, expected: int) -> None:
    output(width)
    assert terminal.console().width == expected


@pytest.mark.parametrize(("columns", "expected"), [("0", 80), ("x", 80), ("-3", 80), ("200", 200)])
def test_columns_replaces_the_width(
    output: Callable, monkeypatch: pytest.MonkeyPatch, columns: str, expected: int
) -> None:
    output(80)
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.console().width == expected


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_value_is_shown_at_every_width(output: Callable, width: int) -> None:
    read = output(width)
    terminal.console().print(table.of_rows("all", ROWS))
    text = terminal.plain(read())
    assert text.count("12345678") == 9 and "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_columns_that_are_omitted_are_named(output: Callable) -> None:
    read = output(80)
    terminal.console().print(table.of_rows("", ROWS, dispensable=("column 3", "column 5", "none")))
    assert "no room in 80 columns: column 3, column 5" in terminal.plain(read())


def test_a_narrow_column_stays_where_a_wider_one_leaves_room(output: Callable) -> None:
    read = output(40)
    row = {"name": "a" * 20, "narrow": "1", "wide": "b" * 20}
    terminal.console().print(table.of_rows("", [row], dispensable=("narrow", "wide")))
    assert "no room in 40 columns: wide (" in terminal.plain(read())


@pytest.mark.parametrize(
    ("variables", "live", "colors"),
    [
        ({}, True, True),
        ({"CI": "true"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, False, True),
    ],
)
def test_a_terminal_has_live_lines_unless_it_is_a_log_or_dumb(
    output: Callable,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    live: bool,
    colors: bool,
) -> None:
    output(80)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = terminal.console()
    assert (found.is_interactive, found.is_terminal) == (live, colors)


@pytest.mark.parametrize(
    ("variables", "colors"),
    [
        ({}, False),
        ({"GITHUB_ACTIONS": "true", "CI": "true"}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_a_pipe_has_no_live_lines_and_colors_only_by_force(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    colors: bool,
) -> None:
    for name in ("COLUMNS", "CI", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = terminal.console()
    assert not found.is_interactive and found.width == terminal.PIPED_WIDTH
    found.print("x\x1b[2Jy\rz", style="bold")
    assert (capsys.readouterr().out == "xyz\n") is not colors


def test_messages_of_programs_lose_their_control_sequences() -> None:
    assert terminal.plain("\x1b[31mred\x1b[0m\x1b]0;title\x07 \x07bell\r\n") == "red bell\n"


@pytest.mark.parametrize("columns", ["40", "69", "70", "120"])
def test_help_has_the_whole_name_of_each_option(columns: str) -> None:
    command = [sys.executable, "-c", "from suite.cli.main import main; main()", "run", "--help"]
    environment = {**os.environ, "COLUMNS": columns, "LINES": "\u00b2"}  # a digit, but no number
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "--full-durations" in done.stdout and "--sync-batch-norm" in done.stdout
    widest = max(map(len, done.stdout.splitlines()))
    assert widest <= max(int(columns), 80)  # plain help has the width of the terminal, at most 80
